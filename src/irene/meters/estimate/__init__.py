"""The power of a CPU where nothing measures it."""

__all__: list[str] = []
