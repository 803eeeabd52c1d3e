"""Commands that learn, examine and list machines."""

__all__: list[str] = []
