"""The endpoints, one module per group.

- `reference`: models, machines and regions that are known, and where numbers come
  from.
- `questions`: an endpoint for each of `irene.questions`, and permalinks.
- `jobs`: longer work that clients ask for.
- `health`: for those who run the server. `pages`: the dashboard.
- `parameters`: what can be asked for; `asking`: from a request to its answer;
  `openapi`: how both are described.
"""
