"""Every distinct node of a model, run alone under the meters."""

__all__: list[str] = []
