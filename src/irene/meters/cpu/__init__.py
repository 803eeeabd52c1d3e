"""The CPU: RAPL, perf, load, clocks, temperature, processes."""
