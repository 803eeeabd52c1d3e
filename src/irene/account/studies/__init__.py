"""Studies: questions that take many ledgers, answered by numbers and tables.

- `program`: `Job`: which model is run, how, and what a step of it is.
- `run`: `Run`, what is kept of a recorded run; `Store`, finished runs on disk.
- `profile`: `Profile`, the mean of runs, by phase, part, layer and role; how far
  profiles differ, and how they correlate.
- `findings`: `Study`, what a study has found.
- `comparisons`: the studies, `grid`, `evolution`, `modes` and `precision`.
"""

from irene.account.studies.comparisons import evolution, grid, modes, precision
from irene.account.studies.findings import Study
from irene.account.studies.program import MODES, Conditions, Job, Mode, Subject
from irene.account.studies.run import Run, Store

__all__ = [
    "MODES",
    "Conditions",
    "Job",
    "Mode",
    "Run",
    "Store",
    "Study",
    "Subject",
    "evolution",
    "grid",
    "modes",
    "precision",
]
