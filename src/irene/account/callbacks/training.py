"""Training: one run of somebody else's training loop, accounted for."""

from __future__ import annotations

import logging
import math
import weakref
from typing import TYPE_CHECKING, Any

from irene.account.live.session import LiveLedger, record
from irene.errors import IreneError

if TYPE_CHECKING:
    from torch import nn

    from irene.account.ledger.ledger import Ledger

LOG = logging.getLogger(__name__)
ENERGY_PER_STEP = "energy_j_per_step"
"""Name of the figure in a trainer's logs: J of the whole machine per step."""


class Training:
    """What a callback of a trainer is: records between `begin` and `end`."""

    def __init__(self, *, log: bool = False, **options: Any) -> None:
        record(None, **options)  # a wrong option is told at once, not after loading
        self._log, self._options = log, options
        self.live: LiveLedger | None = None
        self._is_on = False
        self._steps, self._logged = 0, (0, 0.0)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of the last run; None before its end."""
        return self.live.ledger if self.live else None

    def begin(self, model: nn.Module) -> None:
        """Training of a model begins."""
        self.end(failed=True)
        live = record(model, **self._options)
        live.__enter__()
        self.live, self._is_on = live, True
        self._steps, self._logged = 0, (0, live.used_j())
        # A loop that raised may never say so: hooks go with whoever asked for them.
        self._forgotten = weakref.finalize(self, live.finish, failed=True)
        self._forgotten.atexit = False

    def step(self) -> None:
        """A step is over."""
        if self.live is not None and self._is_on:
            self._steps += 1
            self.live.step()

    def no_step(self) -> None:
        """What ran since the last step is none: an evaluation, a checkpoint."""
        if self.live is not None and self._is_on:
            self.live.no_step()

    def energy_per_step_j(self) -> float:
        """Energy of the machine per step since this was last asked, J; NaN unknown."""
        if self.live is None or not self._is_on:
            return math.nan
        steps_before, used_before_j = self._logged
        used_j = self.live.used_j()
        if self._steps == steps_before:
            return math.nan
        self._logged = (self._steps, used_j)
        return (used_j - used_before_j) / (self._steps - steps_before)

    def end(self, failed: bool = False) -> None:
        """Training is over; twice is fine.

        That there is no ledger is no reason to lose what was trained: it is logged.
        """
        if self.live is None or not self._is_on:
            return
        self._is_on = False
        self._forgotten.detach()
        try:
            self.live.finish(failed)
        except IreneError as error:
            LOG.warning("no ledger of the training: %s", error)
