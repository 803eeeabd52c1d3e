"""Commands on measured data."""
