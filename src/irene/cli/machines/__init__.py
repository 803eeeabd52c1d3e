"""Commands that learn, examine and list machines."""
