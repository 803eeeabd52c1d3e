"""A callback for the Trainer of Lightning.

callback = EnergyCallback(skip=10, warmup=2, steps=20)
trainer = Trainer(callbacks=[callback], max_epochs=1)
trainer.fit(module, data)
callback.ledger.by_module()
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Self

from irene.account.callbacks.training import ENERGY_PER_STEP, Training
from irene.errors import MissingExtraError

HOMES = ("lightning.pytorch", "pytorch_lightning")
"""Lightning under its two names; a callback of one is none of the other."""


class EnergyCallback(Training):
    """Accounts for a run of `Trainer.fit`; an instance is a `Callback` of Lightning.

    A step is a batch. Validation is in the ledger, but in no step.

    Args:
        log: Whether to log the measured energy per step, as `energy_j_per_step`, as
            often as the Trainer logs.
        package: `lightning.pytorch` or `pytorch_lightning`; None for the first of them
            that is installed.
        **options: Of `irene.account.record`.

    Raises:
        MissingExtraError: Lightning is not installed.
    """

    def __new__(
        cls, *, log: bool = False, package: str | None = None, **options: Any
    ) -> Self:
        """Make the class a Callback, now that Lightning is needed."""
        base = _callback_class(HOMES if package is None else (package,))
        made = cls if issubclass(cls, base) else type(cls.__name__, (cls, base), {})
        callback: Self = object.__new__(made)
        return callback

    def __init__(
        self, *, log: bool = False, package: str | None = None, **options: Any
    ) -> None:
        super().__init__(log=log, **options)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Training begins."""
        self.begin(pl_module)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A step is over."""
        self.step()
        if self._log and (batch_idx + 1) % trainer.log_every_n_steps == 0:
            energy_j = self.energy_per_step_j()
            if not math.isnan(energy_j):
                pl_module.log(ENERGY_PER_STEP, energy_j)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """A validation is over."""
        self.no_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Training is over."""
        self.end()

    def on_exception(
        self, trainer: Any, pl_module: Any, exception: BaseException
    ) -> None:
        """Training has failed: account for what ran."""
        self.end(failed=True)


def _callback_class(homes: tuple[str, ...]) -> type:
    for home in homes:
        try:
            found: type = import_module(home).Callback
        except ImportError:
            continue
        return found
    raise MissingExtraError(
        "Lightning is not installed: pip install lightning, or use "
        "`with irene.account(model):` around your own loop"
    )
