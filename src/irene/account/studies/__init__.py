"""Studies: questions that take many ledgers, answered by pictures and tables.

- `program`: what a step of pre-training, fine-tuning and prediction is, for any model.
- `run`: `Job`, one recorded run, and `Run`, what is kept of it.
- `store`: finished runs on disk, so that a study goes on where it was stopped.
- `profile`: `Profile`, the mean of runs, by phase, part, layer and role.
- `likeness`: how far profiles differ, and how they correlate.
- `report`: `Report`, what a study has found, with its pictures and tables.
- `grid`, `evolution`, `modes`, `precision`: one study each.
"""

from irene.account.studies.evolution import evolution
from irene.account.studies.grid import grid
from irene.account.studies.modes import modes
from irene.account.studies.precision import precision
from irene.account.studies.program import MODES, Mode, Subject
from irene.account.studies.report import Report
from irene.account.studies.run import Conditions, Job, Run
from irene.account.studies.store import Store

__all__ = [
    "MODES",
    "Conditions",
    "Job",
    "Mode",
    "Report",
    "Run",
    "Store",
    "Subject",
    "evolution",
    "grid",
    "modes",
    "precision",
]
