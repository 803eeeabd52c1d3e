"""The HTTP API: from a request to its response.

- `settings`: everything a server is told when it starts.
- `app`: `create_app`, which puts all parts together; `server` runs it; `connections`
  cuts off slow clients, and those who take too many.
- `front`, with `access`, `tokens`, `metrics`, `logs` and `tracing`: what every request
  passes through; `problems`: errors as clients see them.
- `routes`: the endpoints, one module per group.
"""
