"""The HTTP API: from a request to its response.

- `settings`: everything a server is told when it starts.
- `app`: `create_app`, which puts all parts together; `server` runs it; `connections`
  cuts off slow clients; on the `fair_loop` nobody's many hold up others.
- `doorway`: the process that takes connections and answers what is known; `rooms`: the
  one inside, which has all else; `passage`: the way between them.
- `gate`, with `access`, `tokens`, `metrics`, `logs` and `tracing`: what every request
  passes through, in both; `front`: inside; `exchange`: a request and its answer;
  `problems`: errors as clients see them.
- `routes`: the endpoints, one module per group.
"""
