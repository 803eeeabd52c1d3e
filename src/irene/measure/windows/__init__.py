"""Windows around any code, and whole programs under meters.

- `window`: `window` and `windows`; `window_session`: meters sampled meanwhile.
- `monitoring`, `monitored`: a whole program under meters, and what it used.
- `exported`: what is counted so far, for Prometheus and OpenTelemetry.
"""
