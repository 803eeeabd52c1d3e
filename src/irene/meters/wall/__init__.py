"""Wall meters on a serial line."""
