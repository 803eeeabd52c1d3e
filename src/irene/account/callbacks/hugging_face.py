"""A callback for the Trainer of Hugging Face transformers.

callback = EnergyCallback(skip=10, warmup=2, steps=20)
trainer = Trainer(model, args, train_dataset=data, callbacks=[callback])
trainer.train()
callback.ledger.by_module()
"""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback

from irene.account.callbacks.training import ENERGY_PER_STEP, Training


class EnergyCallback(Training, TrainerCallback):
    """Accounts for a run of `Trainer.train`.

    A step is one of the Trainer's: all batches up to an update of the weights.
    Evaluations and checkpoints are in the ledger, but in no step.

    Args:
        log: Whether to add the measured energy per step to the Trainer's logs, as
            `energy_j_per_step`.
        **options: Of `irene.account.record`.
    """

    def stop(self) -> None:
        """End a run that raised: the Trainer does not tell its callbacks of that."""
        self.end(failed=True)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Training begins."""
        self.begin(kwargs["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step is over."""
        self.step()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation is over."""
        self.no_step()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A checkpoint is written."""
        self.no_step()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Figures are about to be shown: add ours."""
        if not self._log:
            return
        energy_j = self.energy_per_step_j()
        if math.isnan(energy_j):
            return
        kwargs["logs"][ENERGY_PER_STEP] = energy_j
        # The history has a copy of these figures already.
        if state.log_history:
            state.log_history[-1][ENERGY_PER_STEP] = energy_j

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Training is over."""
        self.end()
