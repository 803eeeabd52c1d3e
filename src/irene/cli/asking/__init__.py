"""Commands that ask about models: one file each, named after its command.

- `predict`, `trace`, `show`, `models`: trees, and which models there are.
- `bottlenecks`, `compare`, `what_if`, `trade_off`, `cost`, `suggest`, `leaderboard`,
  `serve_plan`, `report`: the other questions.
- `plan_training`: what a training takes; `card`: energy for model cards;
  `check`: budgets of a project.
- `curves`: energies as functions of a size, of `what_if` and `compare`.
- `answering`: how they ask, and in which forms they give the answers.
"""
