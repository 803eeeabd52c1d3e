"""Programs as people write them: threads, profilers, errors, forks, compiled models."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from irene.account import Ledger
from irene.account.live.levels import _with_room
from irene.account.live.ranks import Rank
from irene.account.live.sampling import Sampling, _filled
from irene.account.live.session import Level
from irene.errors import UsageError
from irene.meters.channel import Channel
from irene.meters.sampling.recording import Recording
from irene.meters.sampling.totals import RunningTotals
from tests.account.live.test_live import watched

INPUT = torch.randn(8, 16)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def calls(ledger: Ledger, op: str) -> int:
    return sum(row.count for row in ledger.by_op() if row.name == op)


def test_ops_of_other_threads_are_charged() -> None:
    model = small()

    def work() -> None:
        for _ in range(30):
            model(INPUT)

    with watched(model) as ledger:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert calls(ledger.ledger, "aten::addmm") == 60


def test_a_block_in_a_block_is_refused_and_the_outer_one_goes_on() -> None:
    model = small()
    with watched(model) as outer:
        model(INPUT)
        with pytest.raises(UsageError, match="another one runs already"), watched():
            pass
        model(INPUT)
    assert calls(outer.ledger, "aten::addmm") == 4


@pytest.mark.filterwarnings("ignore")
def test_a_profiler_inside_the_block_is_refused_in_a_sentence() -> None:
    model = small()
    block = watched(model)
    block.__enter__()
    model(INPUT)
    with torch.profiler.profile():
        model(INPUT)
    with pytest.raises(UsageError, match="ran inside the block"):
        block.__exit__(None, None, None)
    with watched(model) as ledger:
        model(INPUT)
    assert calls(ledger.ledger, "aten::addmm") == 2


def test_blocks_of_modules_nest_with_their_backward() -> None:
    model = small()
    blocks = [watched(model, level="module") for _ in range(2)]
    with blocks[0] as outer, blocks[1] as inner:
        model(INPUT).sum().backward()
    for ledger in (outer, inner):
        phases = {row.name for row in ledger.by_phase()}
        assert {"forward", "backward"} <= phases


@pytest.mark.parametrize("level", ["op", "module"])
def test_an_error_before_any_op_is_the_users_own(level: Level) -> None:
    with pytest.raises(KeyError, match="mine"), watched(level=level):
        raise KeyError("mine")


def test_nothing_that_ran_is_said_without_a_path() -> None:
    with pytest.raises(UsageError, match="no op of PyTorch ran"), watched():
        pass


class Sized(nn.Linear):
    """A module that has a length, of 0."""

    def __len__(self) -> int:
        return 0


def test_every_call_of_a_decorated_function_has_a_ledger() -> None:
    model = small()

    @watched(model)
    def run(times: int) -> int:
        for _ in range(times):
            model(INPUT)
        return times

    assert [(run(n), calls(run.ledger, "aten::addmm")) for n in (1, 3)] == [  # type: ignore[attr-defined]
        (1, 2),
        (3, 6),
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_in_torchscript() -> None:
    model = torch.jit.script(small())
    with watched(model) as ledger:
        model(INPUT)
    assert ledger.by_phase()[0].name == "forward"


def test_a_model_of_length_0_is_a_model() -> None:
    model = nn.ModuleDict({"inner": Sized(16, 4)})["inner"]
    with watched(model) as ledger:
        model(INPUT)
    assert calls(ledger.ledger, "aten::addmm") == 1


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_a_compiled_model_has_the_paths_of_what_was_compiled() -> None:
    model = small()
    compiled = torch.compile(nn.Linear(16, 4), backend="eager")
    with watched(compiled) as ledger:  # which has no length
        compiled(INPUT)
    assert calls(ledger.ledger, "aten::addmm") >= 1
    assert {row.path for row in ledger.by_module()} == {""}
    seconds = {row.name: row.time_s for row in ledger.by_phase()}
    assert seconds["compile"] > seconds["forward"]
    compiled = torch.compile(model, backend="eager")
    with watched(compiled, level="module") as ledger:
        model(INPUT)
    paths = {row.path for row in ledger.by_module()}
    assert paths == {"", "0", "1", "2"}


def test_a_ledger_shows_itself() -> None:
    model = small()
    with watched(model) as ledger:
        assert "before its block has ended" in repr(ledger)
        model(INPUT)
    assert repr(ledger) == repr(ledger.ledger)
    assert "<table" in ledger._repr_html_()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_that_leaves_the_block_ends() -> None:
    model = small()
    with watched(model) as ledger:
        model(INPUT)
        child = os.fork()
        if not child:
            try:
                with_exit(ledger)
            finally:
                os._exit(3)  # not reached: what a child of a test run must never do
        with timeout(60, child):
            _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
    assert calls(ledger.ledger, "aten::addmm") == 2


def with_exit(ledger: object) -> None:
    """What a `with` block does with `sys.exit`, up to the end of the process."""
    try:
        sys.exit(5)
    except SystemExit as error:
        ledger.__exit__(SystemExit, error, None)  # type: ignore[attr-defined]
        ctypes.CDLL(None).exit(7 if "forked" in repr(ledger) else 8)


@contextmanager
def timeout(seconds: float, child: int) -> Iterator[None]:
    """End a child that does not end by itself."""
    timer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_checkpointing_computes_again_stays_in_its_modules(
    reentrant: bool,
) -> None:
    model = Checkpointed(reentrant)
    x = torch.randn(32, 64, requires_grad=True)
    with watched(model) as ledger:
        model(x).sum().backward()
    events = ledger.events
    placed = {
        (events.op.names[op], events.scope.names[scope], events.phase.names[phase])
        for op, scope, phase in zip(
            events.op.codes, events.scope.codes, events.phase.codes, strict=True
        )
    }
    for number in range(3):
        for layer in ("up", "down"):
            path = f"blocks.{number}.{layer}"
            assert ("aten::addmm", path, "forward") in placed
            assert ("aten::addmm", path, "backward") in placed
            assert ("AddmmBackward0", path, "backward") in placed
    homeless = {op for op, scope, phase in placed if phase == "backward" and not scope}
    assert not homeless & {"aten::addmm", "aten::mm", "AddmmBackward0", "aten::relu"}


class Told:
    """A counter that says what it is told."""

    name = "told"
    channels = (Channel("wall:energy", "energy_j", "wall"),)
    joules = 0.0

    def read(self) -> list[float]:
        return [self.joules]

    def close(self) -> None:
        pass


def test_what_we_use_ourselves_is_not_logged_as_the_programs() -> None:
    meter = Told()
    sampling = Sampling([meter], period_s=10.0, idle_s=0.0)
    sampling.start(Rank(), None)
    try:
        begin_j = sampling.used_j()
        meter.joules += 5.0
        with sampling.left_out():
            meter.joules += 100.0
        meter.joules += 2.0
        assert sampling.used_j() - begin_j == pytest.approx(7.0)
    finally:
        sampling.abandon()


def test_a_trace_for_which_the_disk_has_no_room_is_read_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert _with_room() == str(tmp_path)
    usage = SimpleNamespace(free=4096)
    real = shutil.disk_usage
    monkeypatch.setattr(
        shutil, "disk_usage", lambda at: usage if at == str(tmp_path) else real(at)
    )
    assert _with_room() == "/dev/shm"


def test_a_full_disk_costs_the_curve_and_never_the_energy() -> None:
    channels = (Channel("a", "energy_j"), Channel("b", "power_w"))
    totals = RunningTotals(channels, 0.1)
    rows = [(n * 10**8, [n * 10.0, 50.0 if n < 40 else 80.0]) for n in range(101)]
    snapshots = []
    for time_ns, values in rows:
        totals.add(time_ns, values)
        snapshots.append(totals.snapshot())
    written = Recording(
        channels,
        np.array([time_ns for time_ns, _ in rows[:41]]),
        np.array([values for _, values in rows[:41]]),
        0.1,
    )
    windows = totals.between(snapshots[0], snapshots[-1])
    filled = _filled(written, windows, rows[-1][0])
    assert filled.window(0, 0, 10e9).energy_j == pytest.approx(1000.0)
    assert filled.window(1, 0, 10e9).energy_j == pytest.approx(
        windows[1].integral, 1e-3
    )
    assert "no room for the samples of the last 6 s" in filled.notes[-1]
    assert _filled(filled, windows, rows[-1][0]) is filled
