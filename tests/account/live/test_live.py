from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks
from torch.utils.data import DataLoader, TensorDataset, dataloader
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTForImageClassification,
)

from irene.account.live.session import Level, LiveLedger, record
from irene.errors import UsageError
from tests.account.readers.kineto.linked_parts import backward_s, linked_trace
from tests.account.simulated import WATTS, SteadyMeter

SMALL: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}


def watched(model: nn.Module | None = None, **options: Any) -> LiveLedger:
    return record(model, meters=[SteadyMeter()], period_s=0.005, **options)


def bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SMALL))


TOKENS = torch.arange(32).reshape(2, 16)
LABELS = torch.tensor([0, 1])


def train(model: nn.Module, steps: int, **inputs: torch.Tensor) -> None:
    inputs = inputs or {"input_ids": TOKENS, "labels": LABELS}
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(**inputs).loss.backward()
        optimizer.step()


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    def hooked() -> tuple[Any, ...]:
        return (
            len(module_hooks._global_forward_pre_hooks),
            len(module_hooks._global_forward_hooks),
            len(optimizer_hooks._global_optimizer_pre_hooks),
            len(optimizer_hooks._global_optimizer_post_hooks),
            dataloader._BaseDataLoaderIter.__next__,
            torch.autograd.profiler._is_profiler_enabled,
        )

    before = hooked()
    yield
    assert hooked() == before


@pytest.mark.parametrize("level", ["op", "module"])
def test_training_by_module_and_phase(level: Level) -> None:
    model = bert()
    train(model, 1)
    with watched(model, level=level) as ledger:
        train(model, 3)
    assert ledger.events.steps == ("1", "2", "3")
    assert ledger.measured_j == pytest.approx(WATTS * ledger.window_s, rel=0.02)
    rest_j = sum(row.energy.joules for row in ledger.rest() if row.energy)
    assert ledger.attributed_j + rest_j == pytest.approx(ledger.measured_j, rel=1e-9)
    phases = {row.name: row.energy.joules for row in ledger.by_phase()}
    assert {"forward", "backward", "optimizer", "loss"} <= set(phases)
    assert min(phases["forward"], phases["backward"], phases["optimizer"]) > 0
    for scope in ("bert.encoder.layer.1.attention.self.query", "bert.pooler.dense"):
        seen = {
            ledger.events.phase[row]
            for row in range(len(ledger.events))
            if ledger.events.scope[row] == scope
        }
        assert seen >= {"forward", "backward"}, scope


def test_operations_of_all_layers_are_one_row() -> None:
    model = bert()
    train(model, 1)
    with watched(model, level="op") as ledger:
        train(model, 2)
    rows = ledger.operations()
    attention = "bert.encoder.layer.#.attention.self"
    own = [r for r in rows if r.scope == attention and r.op == "(python)"]
    assert {row.phase for row in own} == {"forward"}
    assert len(own) == 1
    assert not any(row.op.startswith("mod:") for row in rows)


def test_the_module_tree_is_the_one_of_the_trace() -> None:
    model = bert()
    with watched(model, level="module") as ledger:
        train(model, 2)
    paths = {name for name, _ in model.named_modules()}
    unused = {"bert.encoder.layer"}  # a list is not called, nor this under SDPA
    unused |= {path for path in paths if path.endswith("self.dropout")}
    scopes = set(ledger.events.scope.names)
    assert paths - unused <= scopes
    assert scopes - paths == {"CrossEntropyLoss"}


def models() -> Iterator[Any]:
    yield pytest.param(bert, {"input_ids": TOKENS, "labels": LABELS}, id="bert")
    albert = AlbertConfig(**SMALL, embedding_size=16)
    yield pytest.param(
        lambda: AlbertForSequenceClassification(albert),
        {"input_ids": TOKENS, "labels": LABELS},
        id="albert",
    )
    gpt2 = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=100)
    yield pytest.param(
        lambda: GPT2LMHeadModel(gpt2),
        {"input_ids": TOKENS, "labels": TOKENS},
        id="gpt2",
    )
    sizes = {key: SMALL[key] for key in SMALL if key != "vocab_size"}
    vit = ViTConfig(**sizes, image_size=32, patch_size=8)
    yield pytest.param(
        lambda: ViTForImageClassification(vit),
        {"pixel_values": torch.zeros(2, 3, 32, 32), "labels": LABELS},
        id="vit",
    )


@pytest.mark.parametrize(("make", "inputs"), list(models()))
def test_backward_is_linked_to_its_module(
    make: Any, inputs: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    model = make()
    train(model, 1, **inputs)
    with watched(model, level="op", folder=tmp_path) as ledger:
        train(model, 4, **inputs)
    all_s, linked_s = backward_s(linked_trace(tmp_path / "trace.json"))
    assert all_s > 0
    assert linked_s / all_s >= 0.99
    assert (tmp_path / "samples.csv").exists()
    names = {name for name, _ in model.named_modules()}
    assert set(ledger.events.scope.names) - names <= {"CrossEntropyLoss"}


@pytest.mark.parametrize("level", ["op", "module"])
def test_only_the_scheduled_steps_are_recorded(level: Level) -> None:
    model = bert()
    with watched(model, level=level, skip=2, warmup=1, steps=2) as ledger:
        train(model, 3)
        begin_ns = time.time_ns()
        train(model, 2)
        end_ns = time.time_ns()
        train(model, 3)
    assert ledger.events.steps == ("1", "2")
    assert begin_ns <= ledger.window_ns[0] < ledger.window_ns[1] <= end_ns


def test_inference_has_a_step_for_each_forward() -> None:
    model = bert().eval()
    with torch.no_grad(), watched(model) as ledger:
        for _ in range(3):
            model(input_ids=TOKENS)
    assert len(ledger.events.steps) == 3
    assert {row.name for row in ledger.by_phase()} <= {"forward", "other"}


def test_steps_that_are_told_count() -> None:
    model = bert()
    with watched(model, level="module") as ledger:
        for _ in range(2):
            train(model, 2)
            ledger.step()
    assert ledger.events.steps == ("1", "2")


def test_generation_is_accounted_for() -> None:
    config = GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=100, bos_token_id=0, eos_token_id=99
    )
    model = GPT2LMHeadModel(config).eval()
    with watched(model) as ledger:
        model.generate(TOKENS, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert len(ledger.events.steps) == 4
    rows = {row.path: row for row in ledger.by_module()}
    assert rows["transformer.h.1.attn"].energy_j > 0


def test_a_loader_and_a_second_model_have_their_places() -> None:
    first, second = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8))
    loader = DataLoader(TensorDataset(torch.zeros(6, 8)), batch_size=2)
    with watched(None, level="module") as ledger:
        for (batch,) in loader:
            nn.MSELoss()(second(first(batch)), batch).backward()
    scopes = set(ledger.events.scope.names)
    assert {"", "Sequential", "Sequential.0", "MSELoss"} <= scopes
    phases = {row.name for row in ledger.by_phase()}
    assert {"data", "forward", "loss", "backward"} <= phases


def test_what_checkpointing_computes_again_is_backward() -> None:
    model = bert()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    with watched(model, level="module") as ledger:
        train(model, 1)
    events = ledger.events
    layer = [
        events.phase[row]
        for row in range(len(events))
        if events.scope[row] == "bert.encoder.layer.0.output.dense"
    ]
    assert layer.count("forward") == 1
    assert layer.count("backward") >= 2  # computed again, and its gradient


def test_an_exception_passes_and_what_ran_is_kept() -> None:
    model = bert()
    live = watched(model, level="module")

    def program() -> None:
        with live:
            train(model, 2)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        program()
    assert len(live.events.steps) == 2


def test_an_exception_inside_a_forward_leaves_the_names_right() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("inside")

    model = nn.Sequential(nn.Linear(4, 4), Fails())
    good = nn.Sequential(nn.Linear(4, 4))
    with watched(None, level="module") as ledger:
        with pytest.raises(ValueError, match="inside"):
            model(torch.zeros(1, 4))
        good(torch.zeros(1, 4))
    assert {"", "0", "1", "Sequential", "Sequential.0"} <= set(
        ledger.events.scope.names
    )


def test_it_answers_only_after_its_block() -> None:
    live = watched(bert())
    with pytest.raises(UsageError, match="before its block"):
        live.by_module()
    with live:
        train(bert(), 1)
    with pytest.raises(UsageError, match="used"):
        live.__enter__()


def test_nothing_recorded_is_said() -> None:
    with pytest.raises(UsageError, match="5 skipped"), watched(bert(), skip=5):
        train(bert(), 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"level": "layer"}, "level"),
        ({"skip": -1}, "skip"),
        ({"steps": 0}, "at least one"),
        ({"meters": ["proc", SteadyMeter()]}, "either all names"),
    ],
)
def test_bad_requests(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        record(bert(), **options)


def test_one_op_of_two_shapes_is_two_rows() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 6))
    with watched(model, shapes=True) as ledger:
        model(torch.zeros(2, 8))
    names = [row.name for row in ledger.by_op()]
    assert any(name.endswith("aten::addmm 4, 2×8, 8×4") for name in names)
    assert any(name.endswith("aten::addmm 6, 2×4, 4×6") for name in names)
    with watched(model) as ledger:
        model(torch.zeros(2, 8))
    assert not any("×" in row.name for row in ledger.by_op())
    with pytest.raises(UsageError, match="shapes are of ops"):
        watched(model, shapes=True, level="module")
