"""Wall meters on a serial line."""

__all__: list[str] = []
