from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from irene.account.align.attribution import attribute
from irene.account.align.power import PowerSeries
from irene.account.events import Events, EventsBuilder
from irene.account.live.ranks import (
    KeptEvents,
    Rank,
    merge_events,
    merge_folder,
    read_events,
    this_rank,
    write_events,
)
from irene.account.live.session import record
from irene.errors import FormatError, UsageError

WATTS = 40.0
S = 1_000_000_000

# Two real processes that train one model together, as torchrun would start them.
RANK = """
import os, sys
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from irene.account.live.session import record
from irene.errors import UsageError
from irene.meters.channel import Channel

class SteadyMeter:
    name = "steady"
    channels = (Channel("wall:power", "power_w", "wall"),)
    def read(self):
        return [40.0]
    def close(self):
        pass

folder = Path(sys.argv[1])
meeting = f"file://{folder / 'meeting'}"
dist.init_process_group(
    "gloo", init_method=meeting, rank=int(os.environ["RANK"]), world_size=2
)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
live = record(model, meters=[SteadyMeter()], period_s=0.005, idle_s=0.05,
              folder=folder / "run")
with live:
    for _ in range(3):
        optimizer.zero_grad()
        parallel(torch.ones(4, 16)).sum().backward()
        optimizer.step()
    dist.barrier()
try:
    live.by_module()
except UsageError as error:
    print(error)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("two")
    (folder / "rank.py").write_text(RANK)
    common = {**os.environ, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, folder / "rank.py", folder],
            env={**common, "RANK": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        ended = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:  # one that failed leaves the other waiting
            rank.kill()
            rank.communicate()
    for rank, (_, errors) in zip(ranks, ended, strict=True):
        assert rank.returncode == 0, errors
    return folder / "run", [output for output, _ in ended]


def test_two_processes_become_one_ledger(run_of_two: tuple[Path, list[str]]) -> None:
    folder, _ = run_of_two
    files = {path.name for path in folder.iterdir()}
    traces, events = {"trace-0.json", "trace-1.json"}, {"events-0.npz", "events-1.npz"}
    assert files == traces | events | {"samples.csv"}
    ledger = merge_folder(folder)
    assert ledger.events.steps == ("1", "2", "3")
    for process in ("rank 0 · ", "rank 1 · "):
        mine = [name.startswith(process) for name in ledger.events.lane.names]
        rows = np.array(mine)[ledger.events.lane.codes]
        assert ledger.energy_j[rows].sum() > 0
        assert set(np.unique(ledger.events.step[rows])) >= {0, 1, 2}
    assert "communication" in {row.name for row in ledger.by_phase()}
    # The model of both is one, and the power of their machine is theirs to the joule.
    assert set(ledger.events.scope.names) == {"", "0", "1", "2"}
    rest_j = sum(row.energy.joules for row in ledger.rest() if row.energy)
    assert ledger.attributed_j + rest_j == pytest.approx(ledger.measured_j, rel=1e-9)
    known_s = ledger.window_s - ledger.accounts[0].unknown_s
    assert ledger.measured_j == pytest.approx(WATTS * known_s, rel=1e-6)
    assert ledger.power[0].idle_w == pytest.approx(WATTS)


def test_one_of_several_has_no_ledger_alone(
    run_of_two: tuple[Path, list[str]],
) -> None:
    folder, told = run_of_two
    for words in told:
        assert f"one of 2 processes; `irene account --merge {folder}`" in words


# Made by hand ---------------------------------------------------------------------


def events_of(begin_s: float, end_s: float, step: int = 0) -> Events:
    builder = EventsBuilder()
    begin, end = round(begin_s * S), round(end_s * S)
    builder.add("aten::linear", begin, end, scope="layer", phase="forward", step=step)
    builder.add("aten::addmm", begin, end, scope="layer", phase="forward", step=step)
    return builder.build(steps=["1", "2"])


def test_processes_that_run_at_once_share() -> None:
    merged = merge_events({"a": events_of(0, 2), "b": events_of(1, 3, step=1)})
    times = np.array([0, 4 * S])
    power = PowerSeries.from_power("wall", times, np.array([10.0, 10.0]), "linear", 10)
    ledger = attribute(merged, [power], window_ns=(0, 4 * S))
    assert ledger.energy_j.tolist() == pytest.approx([0, 15, 0, 15])
    assert merged.parent.tolist() == [-1, 0, -1, 2]
    assert merged.lane.names == ("a · cpu 0", "b · cpu 0")
    assert merged.steps == ("1", "2")
    assert merged.step.tolist() == [0, 0, 1, 1]


def test_what_only_one_process_knows_stays_unknown_of_the_other() -> None:
    first, second = EventsBuilder(), EventsBuilder()
    first.add("a", 0, 1, flops=7.0)
    second.add("b", 0, 1, device="cuda:0")
    merged = merge_events({"x": first.build(["9"]), "y": second.build(notes=["hm"])})
    np.testing.assert_equal(merged.weights["flops"], [7.0, np.nan])
    assert [merged.device[row] for row in range(2)] == ["cpu", "cuda:0"]
    assert merged.step.tolist() == [-1, -1]
    assert merged.notes == ("y: hm",)


def test_an_event_file_gives_back_what_was_written(tmp_path: Path) -> None:
    builder = EventsBuilder()
    builder.add("α", 5, 9, scope="a.b", phase="loss", lane="7", step=0, flops=2.5)
    events = builder.build(["1"], ["a note"])
    kept = KeptEvents(events, (5, 11), 1, 3, 4, {"wall:power": 12.5})
    write_events(kept, tmp_path / "events.npz")
    again = read_events(tmp_path / "events.npz")
    assert again.window_ns == (5, 11)
    assert (again.rank, again.ranks, again.cpus) == (1, 3, 4)
    assert again.idle_w == kept.idle_w
    assert (again.events.steps, again.events.notes) == (("1",), ("a note",))
    assert again.events.name[0] == "α"
    assert again.events.scope.names == ("a.b",)
    assert again.events.weights["flops"].tolist() == [2.5]


def folder_of(tmp_path: Path, *kept: KeptEvents) -> Path:
    for part in kept:
        write_events(part, tmp_path / f"events-{part.rank}.npz")
    return tmp_path


def test_a_missing_process_is_an_error(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, KeptEvents(events_of(0, 1), (0, S), 1, 2))
    with pytest.raises(UsageError, match=r"1 of 2 processes \(rank 1\)"):
        merge_folder(folder)


def test_files_of_two_runs_are_an_error(tmp_path: Path) -> None:
    one = KeptEvents(events_of(0, 1), (0, S), 0, 2)
    other = KeptEvents(events_of(0, 1), (0, S), 1, 4)
    with pytest.raises(UsageError, match=r"several runs, with \[2, 4\]"):
        merge_folder(folder_of(tmp_path, one, other))


def test_machines_are_merged_one_at_a_time(tmp_path: Path) -> None:
    for name in ("left", "right"):
        folder_of(tmp_path / name, KeptEvents(events_of(0, 1), (0, S)))
    with pytest.raises(UsageError, match="2 machines"):
        merge_folder(tmp_path)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no events"):
        merge_folder(tmp_path)
    folder_of(tmp_path, KeptEvents(events_of(0, 1), (0, S)))
    with pytest.raises(UsageError, match=r"samples\.csv"):
        merge_folder(tmp_path)
    path = tmp_path / "events-0.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match="not a file of events"):
        merge_folder(tmp_path)


# Which process this is ------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, Rank()),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Rank()),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Rank(1, 2, 1, 2)),
        (
            {
                "RANK": "5",
                "WORLD_SIZE": "8",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "4",
            },
            Rank(5, 8, 1, 4),
        ),
    ],
)
def test_the_environment_says_which_process_this_is(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], rank: Rank
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, word in environment.items():
        monkeypatch.setenv(name, word)
    assert this_rank() == rank


def test_files_of_ranks_and_machines() -> None:
    folder = Path("run")
    assert Rank().file(folder, "trace.json") == folder / "trace.json"
    assert Rank(1, 2, 1, 2).file(folder, "trace.json") == folder / "trace-1.json"
    there = folder / platform.node() / "trace-5.json"
    assert Rank(5, 8, 1, 4).file(folder, "trace.json") == there
    assert [Rank(5, 8, local, 4).samples_power for local in (0, 1)] == [True, False]


def test_an_impossible_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(UsageError, match="rank 2 of 2"):
        this_rank()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(UsageError, match="RANK='first'"):
        this_rank()


def test_several_processes_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UsageError, match="same folder"):
        record(None).__enter__()
