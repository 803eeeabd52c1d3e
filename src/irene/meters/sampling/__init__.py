"""Samplers, what they recorded, and running totals."""

__all__: list[str] = []
