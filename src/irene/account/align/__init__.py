"""Events × power: nesting, alignment, attribution, each joule once."""

__all__: list[str] = []
