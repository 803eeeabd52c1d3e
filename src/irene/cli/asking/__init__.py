"""Commands that ask about models.

- `commands`: those that ask a question and show its answer, a row each; `card` and
  `report` have forms of their own.
- `show`, `models`: saved trees, and which models there are; `check`: budgets of a
  project.
- `answering`: how they ask, and in which forms they give the answers.
"""
