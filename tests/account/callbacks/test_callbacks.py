from __future__ import annotations

import gc
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.utils.data import DataLoader, Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from irene.account.callbacks import hugging_face
from irene.account.callbacks import lightning as lightning_callback
from irene.errors import MissingExtraError, UsageError
from tests.account.simulated import WATTS, SteadyMeter

STEPS = 6


STEADY: dict[str, Any] = {"meters": [SteadyMeter()], "period_s": 0.005}


class Sentences(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 2 * STEPS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.arange(8), "labels": torch.tensor(index % 2)}


def bert() -> BertForSequenceClassification:
    config = BertConfig(
        num_hidden_layers=1,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=50,
    )
    return BertForSequenceClassification(config)


def trainer(folder: Path, *callbacks: TrainerCallback, **arguments: Any) -> Trainer:
    chosen = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        save_strategy="no",
        **arguments,
    )
    return Trainer(
        bert(),
        chosen,
        train_dataset=Sentences(),
        eval_dataset=Sentences(),
        callbacks=list(callbacks),
    )


def hooked() -> int:
    return len(module_hooks._global_forward_pre_hooks)


def test_a_run_of_the_hugging_face_trainer(tmp_path: Path) -> None:
    callback = hugging_face.EnergyCallback(
        level="op", skip=1, warmup=1, steps=3, **STEADY
    )
    trainer(tmp_path, callback).train()
    ledger = callback.ledger
    assert ledger is not None
    assert ledger.events.steps == ("1", "2", "3")
    assert {"forward", "backward", "optimizer"} <= {
        row.name for row in ledger.by_phase()
    }
    assert "bert.encoder.layer.0.attention.self.query" in ledger.events.scope.names
    assert ledger.measured_j == pytest.approx(WATTS * ledger.window_s, rel=0.02)
    assert hooked() == 0


def test_energy_is_in_the_logs_and_an_evaluation_in_no_step(tmp_path: Path) -> None:
    callback = hugging_face.EnergyCallback(level="module", log=True, **STEADY)
    run = trainer(
        tmp_path,
        callback,
        logging_strategy="steps",
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=3,
    )
    run.train()
    logged = [row for row in run.state.log_history if "loss" in row]
    assert len(logged) == STEPS // 2
    assert all(row["energy_j_per_step"] > 0 for row in logged)
    ledger = callback.ledger
    assert ledger is not None
    assert len(ledger.events.steps) == STEPS
    events = ledger.events
    forwards = [
        int(events.step[row])
        for row in range(len(events))
        if events.scope[row] == "classifier" and events.phase[row] == "forward"
    ]
    # Each step has one forward; those of the two evaluations are outside.
    assert [forwards.count(step) for step in range(STEPS)] == [1] * STEPS
    assert forwards.count(-1) == len(forwards) - STEPS > 0


def test_a_trainer_that_fails_can_be_accounted_for(tmp_path: Path) -> None:
    class Fails(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                raise RuntimeError("no more")

    callback = hugging_face.EnergyCallback(level="module", **STEADY)
    run = trainer(tmp_path, callback, Fails())
    with pytest.raises(RuntimeError, match="no more"):
        run.train()
    callback.stop()
    assert callback.ledger is not None
    assert len(callback.ledger.events.steps) == 3
    assert hooked() == 0


def test_hooks_go_with_a_callback_that_nobody_stopped() -> None:
    callback = hugging_face.EnergyCallback(level="module", **STEADY)
    callback.on_train_begin(None, None, None, model=nn.Linear(2, 2))
    assert hooked() == 1
    del callback
    gc.collect()
    assert hooked() == 0


def test_training_that_is_too_short_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = hugging_face.EnergyCallback(skip=100, **STEADY)
    trainer(tmp_path, callback).train()
    assert callback.ledger is None
    assert "100 skipped" in caplog.text


def test_a_wrong_option_is_told_before_training() -> None:
    with pytest.raises(UsageError, match="level"):
        hugging_face.EnergyCallback(level="layer")


# Lightning ------------------------------------------------------------------------


def fit(library: Any, callback: Any, fail_at: int = -1, **options: Any) -> Any:
    class Module(library.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = bert()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            if index == fail_at:
                raise RuntimeError("no more")
            loss: torch.Tensor = self.net(**batch).loss
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.net(**batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    run = library.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[callback],
        **options,
    )
    loader = DataLoader(Sentences(), batch_size=2)
    run.fit(Module(), loader, loader)
    return run


quiet = pytest.mark.filterwarnings(
    "ignore:The '.*_dataloader' does not have many workers",
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated",
)


@quiet
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_a_run_of_the_lightning_trainer(package: str) -> None:
    library = import_module(package)
    callback = lightning_callback.EnergyCallback(
        level="op", log=True, package=package, **STEADY
    )
    assert isinstance(callback, library.Callback)
    run = fit(library, callback, log_every_n_steps=2, val_check_interval=3)
    ledger = callback.ledger
    assert ledger is not None
    assert len(ledger.events.steps) == STEPS
    assert "net.bert.encoder.layer.0.output.dense" in ledger.events.scope.names
    # Lightning runs the model inside the optimizer's step, by a closure.
    time_s = {row.name: row.time_s for row in ledger.by_phase()}
    assert time_s["optimizer"] < time_s["forward"] + time_s["backward"]
    assert run.logged_metrics["energy_j_per_step"] > 0
    assert not math.isnan(ledger.attributed_j)
    assert hooked() == 0


@quiet
def test_lightning_that_fails_is_accounted_for() -> None:
    callback = lightning_callback.EnergyCallback(level="module", **STEADY)
    with pytest.raises(RuntimeError, match="no more"):
        fit(import_module("lightning.pytorch"), callback, fail_at=2)
    assert callback.ledger is not None
    assert len(callback.ledger.events.steps) == 2
    assert hooked() == 0


def test_without_lightning_the_remedy_is_named() -> None:
    with pytest.raises(MissingExtraError, match="pip install lightning"):
        lightning_callback.EnergyCallback(package="no_such_lightning")
