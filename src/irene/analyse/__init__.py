"""Questions asked of trees: where energy goes, what differs, what to change.

A question takes any tree, predicted, measured or accounted, and answers with a frozen
value that has `to_dict`. Those that change a model predict it anew.

- `bottlenecks`: `find_bottlenecks`, what to look at first.
- `comparison`: `compare`, what differs between two trees, and why; or between
  several and the first.
- `grid`: `what_if`, other sizes, settings and config fields, also as people write them;
  `config_fields`: which fields there are; `sensitivity`: which matter.
- `pareto`: `trade_off`, accuracy against energy, and published scores.
- `serving_plan`: the cheapest way to serve a model that is quick enough.
- `served`: what is predicted for a server that runs, beside what it was seen to use.
- `curve`: energy as a function of a size, budgets and crossings found on it.
- `costs`: `cost_of`, kilowatt-hours, money, CO₂e.
- `training_plan`: `plan_training`, kilowatt-hours, hours and money of a training.
- `card`: `card_of`, what a model card says of energy.
- `budgets`: `check`, what the models of a project may use, and what a change did;
  `project`: its models, predicted in a child, also of another commit.
- `suggest`: `suggestions`, one rule per file.
- `leaderboard`: `rank_models`, the whole catalogue; `energy_cache`: what was asked.
- `parts`: a tree as parts that do not overlap, and what they are for.
- `subject`: `Subject`, what a question is asked of, also as people write it
  (`gpt2@b16s256`, `tree.json`); `listings`: models and machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.analyse.bottlenecks import Bottleneck, Bottlenecks, find_bottlenecks
    from irene.analyse.comparison import Comparison, Contribution, compare
    from irene.analyse.costs import Costing, CostTerms, cost_of
    from irene.analyse.grid import Outcome, WhatIf, what_if
    from irene.analyse.leaderboard import Leaderboard, rank_models
    from irene.analyse.pareto import Candidate, TradeOff, pareto_front, trade_off
    from irene.analyse.sensitivity import Elasticity, Sensitivity
    from irene.analyse.subject import Subject
    from irene.analyse.suggest import Advice, Suggestion, suggestions

__all__ = [
    "Advice",
    "Bottleneck",
    "Bottlenecks",
    "Candidate",
    "Comparison",
    "Contribution",
    "CostTerms",
    "Costing",
    "Elasticity",
    "Leaderboard",
    "Outcome",
    "Sensitivity",
    "Subject",
    "Suggestion",
    "TradeOff",
    "WhatIf",
    "compare",
    "cost_of",
    "find_bottlenecks",
    "pareto_front",
    "rank_models",
    "suggestions",
    "trade_off",
    "what_if",
]

__getattr__ = lazily(__name__)
