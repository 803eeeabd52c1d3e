"""Learning a machine from measured trees."""

__all__: list[str] = []
