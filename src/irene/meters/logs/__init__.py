"""Logs that external meters have written."""

__all__: list[str] = []
