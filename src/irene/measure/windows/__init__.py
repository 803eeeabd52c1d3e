"""Windows around any code, and whole programs under meters."""

__all__: list[str] = []
