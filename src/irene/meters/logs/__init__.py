"""Logs that external meters and other programs have written.

- `power_log`: a finished log as samples; `log_formats`: the formats, one small reader
  each; `metric_series`: series of Prometheus and Grafana.
- `log_lines`: `PowerLog`; which columns hold time and power, and their numbers.
- `log_clock`: from a log's clock and zone to ours.
"""
