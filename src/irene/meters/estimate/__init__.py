"""The power of a CPU where nothing measures it."""
