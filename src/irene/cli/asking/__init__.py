"""Commands that ask about models."""
