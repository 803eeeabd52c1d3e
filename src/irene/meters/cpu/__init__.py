"""The CPU: RAPL, perf, load, clocks, temperature, processes."""

__all__: list[str] = []
