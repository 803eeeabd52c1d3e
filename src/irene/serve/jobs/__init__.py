"""Long work: a model that somebody brought, or a measurement on this machine.

An accepted job is a row of the store before the client hears of it, and it is run to
its end whatever happens to the server meanwhile.

- `request`: what may be asked for.
- `runner`: `JobRunner`; one process per data folder runs the jobs, all of them accept.
- `execution`: one job from beginning to end, in a process of its own.
- `watch`: who follows a job is told of its changes, also as an event stream.
- `notify`: e-mail and webhooks, and where a webhook may go.
- `document`: the JSON document of a job.
"""
