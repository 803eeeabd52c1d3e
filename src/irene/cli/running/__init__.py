"""Commands that run something under meters."""
