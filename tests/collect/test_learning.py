"""Learning a machine: what is measured is kept, what disturbs is told, what is learned
is the default from then on. Times are those of a machine that is made up."""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import irene
from irene.cli import main
from irene.collect import drift, fleet, learning
from irene.energy import Energy, difference
from irene.errors import IreneError, UsageError
from irene.measure.alone.journal import Journal
from irene.measure.inside.designs import Block, Item, design
from irene.measure.inside.seen import Measured, OpTime, Part, Whole
from irene.predict.machines import chosen
from irene.predict.machines.finding import find_machine, keep_machine
from irene.predict.machines.learned.learned_machine import LearnedMachine
from irene.predict.machines.learned.time_fit import (
    errors_left_out,
    errors_of,
    fit_times,
    samples_of,
)

WATTS = 20.0


def _op(m: int, n: int, k: int, pool_mib: float = 0.0) -> OpTime:
    moved = 4 * (m * k + k * n + m * n)
    cold = pool_mib / (pool_mib + 16.0)
    seconds = 4e-6 + 2e-11 * m * n * k + 1e-10 * 4 * k * n * cold
    shapes = ((m, k), (k, n)), ((m, n),)
    flops = 2 * m * n * k
    names = "aten.mm", "Linear"
    times = seconds, 0.0, pool_mib
    return OpTime(*names, *shapes, "fp32", flops, moved, 1, *times)


def _add(rows: int, width: int) -> OpTime:
    shape, moved = (rows, width), 12 * rows * width
    seconds = 3e-6 + 2e-10 * moved
    shapes = (shape, shape), (shape,)
    times = seconds, seconds, 0.0
    return OpTime("aten.add", "add", *shapes, "fp32", rows * width, moved, 2, *times)


def _random_product(rng: random.Random) -> OpTime:
    sizes = [2 ** rng.randint(3, 9) for _ in "mnk"]
    return _op(*sizes, rng.choice((0.0, 256.0)))


def _made_up(item: Item, rng: random.Random, flags: tuple[str, ...] = ()) -> Measured:
    """What a machine of 100 GFLOP/s and 5 GB/s would have shown."""
    sizes = [2 ** rng.randint(3, 9) for _ in range(3)]
    if item.kind == "products":
        ops = tuple(_random_product(rng) for _ in range(6))
        found = Measured(item.key, "products", ops=ops, flags=flags)
        return replace(found, reference_s=1e-3, seconds=1.0)
    ops = (_op(*sizes), _add(sizes[0], sizes[1]))
    own_s = sum(op.times * op.hot_s for op in ops)
    part = Part("Layer", ((0, 1), (1, 2)), (3, 4), own_s)
    seconds = own_s + 5e-6 * 3 + 1e-5
    whole = Whole((3, 4), seconds, 0.01, WATTS * seconds)
    family = item.block.family if item.block else "bert"
    rest = flags, 0.0, 1e-3, 1.0
    return Measured(item.key, "blocks", family, ops, whole, (part,), *rest)


class _Runner:
    """A machine that answers at once."""

    fault_s_mib = 0.0

    def __init__(self, flags: tuple[str, ...] = ()) -> None:
        self.flags = flags
        self.seen: list[str] = []
        self._rng = random.Random(3)

    def measure(self, item: Item) -> Measured:
        self.seen.append(item.key)
        return _made_up(item, self._rng, self.flags)


def _here(runner: _Runner) -> Any:
    readings = SimpleNamespace(meters="rapl", source="measured", covers="cpu-package")
    about = {
        "cpu": "made up",
        "cores": "2",
        "torch": "2",
        "device": "cpu",
        "threads": "1",
    }
    one = SimpleNamespace(energy_j=1.0, half_width_j=0.02)
    bench = SimpleNamespace(readings=readings, round=lambda run, repeats: one)
    return SimpleNamespace(
        runner=runner, bench=bench, device="cpu", threads=1, about=about, gflop_s=64.0
    )


def _silent(done_s: float, total_s: float, what: str) -> None:
    return None


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    def opened() -> Journal:
        return Journal(tmp_path / "j.jsonl", {"about": "x"}, False, Measured.from_dict)

    return opened


@pytest.fixture(scope="module")
def learned() -> LearnedMachine:
    """A machine learned from a made-up one."""
    rng, spent = random.Random(1), {"products": 0.0, "blocks": 0.0}
    items = []
    for turn, choose in enumerate(design(64.0)):
        if turn == 80:
            break
        item = choose(spent)
        spent[item.kind] += 1.0
        items.append(_made_up(item, rng))
    return learning._fitted(_here(_Runner()), items, "this-machine", "quick")


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IRENE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_made_up_machine_is_found_again(learned: LearnedMachine) -> None:
    op = _op(96, 200, 300, 256.0)
    sample = samples_of([Measured("x", "products", ops=(op,))], 1.0)[0]
    found = learned.model.watched_s(sample.ops, np.array([256 / 272]))
    assert found[0] == pytest.approx(op.hot_s, rel=0.15)
    assert learned.model.watts == pytest.approx([WATTS] * 3, rel=0.05)
    assert learned.provenance["held_out_errors_percent"]["blocks"]["model"] < 15


def test_prediction_carries_time_and_energy(learned: LearnedMachine) -> None:
    tree = learned.predict(irene.trace("bert-l2-h128", batch_size=2, seq_len=32))
    time_s, own = tree.features["time_s"], tree.own_j
    assert time_s[0] > 0
    assert own is not None
    assert (own >= -1e-12).all()
    energy = tree.energy_of(0)
    assert energy is not None
    assert energy.joules == pytest.approx(WATTS * time_s[0], rel=0.05)
    assert any("never measured here" in note for note in tree.notes)


def _half(one: Energy | None, other: Energy | None) -> float:
    """Half the interval of a ratio, in log units."""
    assert one is not None
    assert other is not None
    found = difference(one, other)
    assert found.ratio is not None
    assert found.ratio_high is not None
    return math.log(found.ratio_high / found.ratio)


def _apart(one: Energy, other: Energy) -> float:
    """The same, did they share nothing."""
    return math.hypot(*(math.log(each.high / each.joules) for each in (one, other)))


def test_two_runs_share_what_is_not_known_of_the_power(learned: LearnedMachine) -> None:
    told = [
        replace(learned, power_width=power)
        .predict(irene.trace("bert-l2-h128", batch_size=size, seq_len=32))
        .energy_of(0)
        for power in (0.4, 0.01)
        for size in (2, 4)
    ]
    assert _half(*told[:2]) == pytest.approx(_half(*told[2:]))


def test_two_runs_share_what_is_wrong_with_the_same_ops(
    learned: LearnedMachine,
) -> None:
    """Of ops whose times are wrong for good, nine of ten ratios hold."""
    rng = np.random.default_rng(0)
    runs = [
        learned.predict(irene.trace(model, batch_size=size, seq_len=32))
        for model, size in (
            ("bert-l2-h128", 2), ("bert-l4-h128", 2), ("bert-l12-h128", 2),
            ("bert-l2-h128", 8), ("bert-l2-h256", 2),
        )
    ]  # fmt: skip
    told = [energy for run in runs if (energy := run.energy_of(0))]
    ops, *_ = zip(*(energy.errors for energy in told), strict=True)
    names = sorted({name for each in ops for name in each.place})
    shares = np.array([[each.place.get(name, 0.0) for name in names] for each in ops])
    shares /= shares.sum(axis=1, keepdims=True)
    one_way, ratios = 1.645 * np.sqrt((shares**2).sum(axis=1)), {}
    for one, other in combinations(range(len(runs)), 2):
        # Errors of ops that make whole runs as wrong as they are said to be.
        size = math.hypot(*(ops[i].width for i in (one, other)))
        size /= math.hypot(one_way[one], one_way[other])
        errors = size * rng.standard_normal((4000, len(names)))
        off = np.abs(errors @ (shares[one] - shares[other]))
        half = _half(told[one], told[other])
        assert np.mean(off <= half) > 0.885
        ratios[one, other] = half / _apart(told[one], told[other])
    assert ratios[1, 2] < 0.75  # mostly the same layers
    assert ratios[0, 3] > 0.9  # hardly an op in common
    again = learned.predict(irene.trace("bert-l2-h128", batch_size=2, seq_len=32))
    assert _half(told[0], again.fold().energy_of(0)) < 1e-3


def test_what_does_not_fit_here_is_said_first(learned: LearnedMachine) -> None:
    size_bytes = learned.provenance["memory_bytes"]
    told = (Path("/proc/meminfo")).read_text().split()
    assert size_bytes == 1024 * int(told[told.index("MemTotal:") + 1])
    tiny = replace(learned, provenance={**learned.provenance, "memory_bytes": 10**6})
    run = {"batch_size": 2, "seq_len": 16}
    for machine, fits in ((learned, True), (tiny, False)):
        tree = machine.predict(irene.trace("bert-l2-h128", **run))
        assert (tree.root.features["memory_share"] < 1) == fits
        assert ("do not fit into" in tree.notes[0]) != fits


def test_training_is_as_unsure_as_what_was_never_measured(
    learned: LearnedMachine,
) -> None:
    run = {"batch_size": 2, "seq_len": 16}
    trained, more = (
        learned.predict(irene.trace("bert-l2-h128", phase="train", **{**run, **each}))
        for each in ({}, {"batch_size": 3})
    )
    (note,) = [note for note in trained.notes if "of training, which was never" in note]
    assert note.endswith("± 65 %, an assumption")
    both = trained.energy_of(0), more.energy_of(0)
    widths = [math.log(each.high / each.joules) for each in both]
    assert min(widths) > 0.5
    # it is one error of both, and cancels
    ops = [each.errors[0].width for each in both]
    assert _half(*both) <= math.hypot(*ops)


def test_file_holds_all_of_it(learned: LearnedMachine, own_home: Path) -> None:
    keep_machine(learned)
    read = find_machine("this-machine")
    assert read.digest == learned.digest
    assert read.to_dict() == learned.to_dict()


class _Noting(Journal):
    """Notes beside it what it has answered for."""

    def append(self, result: Any) -> None:
        super().append(result)
        with self.path.with_suffix(".noted").open("a") as file:
            file.write(f"{result.key}\n")


class _Slow(_Runner):
    def measure(self, item: Item) -> Measured:
        time.sleep(0.001)
        return super().measure(item)


def test_killed_twenty_times_nothing_is_lost(tmp_path: Path) -> None:
    """By SIGKILL, at random points: what was measured is there, once."""
    rng, path = random.Random(5), tmp_path / "j.jsonl"

    def measure() -> None:
        with _Noting(path, {"about": "x"}, False, Measured.from_dict) as book:
            learning._measure(_here(_Slow()), book, 1e9, _silent)

    def noted() -> list[str]:
        beside = path.with_suffix(".noted")
        return beside.read_text().splitlines() if beside.exists() else []

    for _ in range(20):
        child = multiprocessing.get_context("fork").Process(target=measure)
        child.start()
        wanted = len(noted()) + rng.randint(1, 5)
        while len(noted()) < wanted:
            time.sleep(0.002)
        child.kill()
        child.join()
    with Journal(path, {"about": "x"}, False, Measured.from_dict) as book:
        assert set(noted()) <= set(book.results)
        assert len(book.results) <= len(noted()) + 20  # those nobody had noted yet
    assert len(noted()) == len(set(noted())) >= 20


def test_time_that_was_spent_before_counts(journal: Any) -> None:
    with journal() as book:
        learning._measure(_here(_Runner()), book, 6.0, _silent)
    again = _Runner()
    with journal() as book:
        learning._measure(_here(again), book, 8.0, _silent)
    assert len(again.seen) == 2


def test_busy_machine_is_waited_for_and_told(
    journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "PAUSE_S", 0.0)
    runner = _Runner(("busy",))
    with journal() as book:
        items = learning._measure(_here(runner), book, 40.0, _silent)
    assert len(runner.seen) > len(items)
    calm = [replace(each, flags=()) for each in items]
    busy = learning._fitted(_here(runner), items, "m", "quick")
    quiet = learning._fitted(_here(runner), calm, "m", "quick")
    assert busy.provenance["disturbed"] == {"busy": len(items)}
    assert any("another process was busy" in n for n in busy.provenance["caveats"])
    assert busy.width("model", 1.0) > 1.2 * quiet.width("model", 1.0)


class _Once(_Runner):
    """Another process is busy whenever something is measured for the first time."""

    def measure(self, item: Item) -> Measured:
        found = super().measure(item)
        is_first = self.seen.count(item.key) == 1
        return replace(found, flags=("busy",) if is_first else ())


def test_the_calmer_of_two_measurements_is_kept(
    journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "WAITING", 1.0)
    monkeypatch.setattr(learning, "PAUSE_S", 0.0)
    with journal() as book:
        items = learning._measure(_here(_Once()), book, 10.0, _silent)
    assert items
    assert not any(each.flags for each in items)


def test_blocks_that_were_held_up_weigh_less_in_what_lies_between() -> None:
    rng, block = random.Random(6), Block("bert", {}, {})
    items = [_made_up(Item(f"b {i}", "blocks", block=block), rng) for i in range(30)]

    def held_up(item: Measured, flags: tuple[str, ...]) -> Measured:
        assert item.whole is not None
        whole = item.whole._replace(seconds=1.5 * item.whole.seconds)
        return replace(item, whole=whole, flags=flags)

    def error(*flags: str) -> float:
        some = [*items[:18], *(held_up(each, flags) for each in items[18:])]
        model = fit_times(samples_of(some, 1.0), 0.0)
        off = errors_of(model, samples_of(items, 1.0))["model"][:, 1]
        return float(np.mean(np.abs(off)))

    assert error("busy") < 0.8 * error()


def test_throttled_clock_is_seen(journal: Any) -> None:
    with journal() as book:
        items = learning._measure(_here(_Runner()), book, 30.0, _silent)
    slow = items[:21] + [replace(each, reference_s=2e-3) for each in items[21:]]
    machine = learning._fitted(_here(_Runner()), slow, "m", "quick")
    assert machine.provenance["disturbed"]["throttled"] == len(items) - 21
    assert any("clock was throttled" in n for n in machine.provenance["caveats"])
    calm = learning._fitted(_here(_Runner()), items, "m", "quick")
    assert machine.width("module", 1e-3) > calm.width("module", 1e-3)


def test_kernel_that_is_missing_is_told(journal: Any) -> None:
    with journal() as book:
        items = learning._measure(_here(_Runner()), book, 30.0, _silent)
    items.append(Measured("blocks 99", "blocks", "mamba", problem="no kernel: scan"))
    machine = learning._fitted(_here(_Runner()), items, "m", "quick")
    said = [n for n in machine.provenance["caveats"] if "mamba" in n]
    assert said == ["mamba could not be run here: no kernel: scan"]


@pytest.mark.parametrize("kind", [NotImplementedError, AttributeError, ImportError])
def test_a_torch_without_a_kernel_loses_that_block_alone(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    from irene.measure.inside.items import Runner

    def lacking(*_: Any) -> Any:
        raise kind("aten::_scan is not there for 'CPU'\nmore words")

    runner = object.__new__(Runner)
    monkeypatch.setattr(Runner, "prepared", lacking)
    found = runner.measure(Item("blocks 7", "blocks", block=Block("mamba", {}, {})))
    assert found.problem == "aten::_scan is not there for 'CPU'"
    assert not found.ops


def test_hardly_anything_measured_has_wide_intervals(journal: Any) -> None:
    """One block: nothing can be left out, so nobody knows how good it is."""
    with journal() as book:
        items = learning._measure(_here(_Runner()), book, 2.0, _silent)
    assert sum(each.whole is not None for each in items) == 1
    machine = learning._fitted(_here(_Runner()), items, "m", "quick")
    assert machine.width("model", 1.0) == 1.0
    told = machine.provenance["held_out_errors_percent"]["blocks"]
    assert told == {"ml": None, "module": None, "model": None}


def test_nothing_measured_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="too little was measured"):
        fit_times([], 0.0)


def test_disk_full(journal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with journal() as book:
        learning._measure(_here(_Runner()), book, 5.0, _silent)
        before = len(book.results)
        monkeypatch.setattr("os.write", full)
        with pytest.raises(IreneError, match=r"No space left.*kept: make room"):
            learning._measure(_here(_Runner()), book, 9.0, _silent)
        monkeypatch.undo()
    with journal() as book:
        assert len(book.results) == before


def test_default_is_what_was_learned_here(
    learned: LearnedMachine, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen.default_machine().name == "pc1"
    assert "irene learn" in chosen.default_machine().why
    keep_machine(learned)
    assert chosen.default_machine().name == "this-machine"
    assert irene.predict("bert-l2-h128").hardware.name == "this-machine"  # type: ignore[union-attr]
    chosen.use_machine("h100")
    assert chosen.default_machine().name == "h100"
    monkeypatch.setenv("IRENE_HARDWARE", "b200")
    assert chosen.default_machine().name == "b200"
    monkeypatch.delenv("IRENE_HARDWARE")
    chosen.use_machine(None)
    assert chosen.default_machine().name == "this-machine"


def test_file_of_another_machine_is_not_taken(
    learned: LearnedMachine, own_home: Path
) -> None:
    told = {**learned.provenance, "fingerprint": "Cray-1, 1 CPUs"}
    keep_machine(replace(learned, provenance=told))
    name, why = chosen.default_machine()
    assert name == "pc1"
    assert "learned on another machine (Cray-1, 1 CPUs)" in why
    with pytest.raises(UsageError, match="another machine"):
        drift.check_machine("this-machine")


def test_what_asks_for_measured_trees_says_what_to_do_instead(
    learned: LearnedMachine, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_machine(learned)
    assert main(["evaluate", "nowhere", "--predictor", learned.hardware.name]) == 2
    told = capsys.readouterr().err
    assert "fitted to no measured trees: `irene learn --check`" in told


def test_damaged_file_is_a_sentence(learned: LearnedMachine, own_home: Path) -> None:
    path = keep_machine(learned)
    path.write_text(path.read_text()[:-40] + '"}')
    name, why = chosen.default_machine()
    assert name == "pc1"
    assert "learns this machine anew" in why


def test_drift_and_what_changed(
    learned: LearnedMachine, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_machine(learned)

    class Slower(_Runner):
        def measure(self, item: Item) -> Measured:
            then = learned.provenance["anchors"][item.key][0]
            whole = Whole((1, 1), 1.3 * then, 0.0, 1.0)
            found = _made_up(item, random.Random(0), ("throttled",))
            return replace(found, whole=whole)

    here = _here(Slower())
    here.about = {**here.about, "torch": "3"}
    monkeypatch.setattr(drift, "place", lambda *_: _entered(here))
    found = drift.check_machine("this-machine")
    assert found.drifted
    assert found.drift == pytest.approx(0.3)
    assert found.changed == {"torch": ("2", "3")}
    told = "\n".join(found.lines())
    assert "30% slower" in told
    count = len(found.ratios)
    assert f"the clock was throttled in {count} of {count} blocks" in told
    assert "another process" not in told


def _entered(here: Any) -> Any:
    return nullcontext(here)


@pytest.fixture
def quick_place(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The whole of `learn` on a machine that answers at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_home))
    monkeypatch.setattr(learning, "PLANS", {"quick": 60.0, "usual": 90.0})

    def put(runner: Any, **readings: str) -> Any:
        here = _here(runner)
        vars(here.bench.readings).update(readings)
        monkeypatch.setattr(learning, "place", lambda *_: _entered(here))
        return here

    return put


def test_learn_from_beginning_to_end(quick_place: Any, own_home: Path) -> None:
    said: list[str] = []
    quick_place(_Runner())
    found = learning.learn("quick", tell=lambda done, total, what: said.append(what))
    assert found.path.is_file()
    assert chosen.default_machine().name == "this-machine"
    assert [row["model"] for row in found.machine.provenance["exam"]] == [
        "distilbert-base-uncased", "opt-125m",
    ]  # fmt: skip
    for row in found.machine.provenance["exam"]:  # intervals are as wide as its errors
        off = abs(math.log(row["predicted_s"] / row["measured_s"]))
        assert off <= 1.0001 * found.machine.width("model", row["measured_s"])
    assert {"bert", "products", "fitting", "sitting the exam"} <= set(said)
    assert not list(own_home.rglob("learn-*.jsonl"))  # a journal that is done


def test_no_meter_is_an_estimate_that_says_so(quick_place: Any) -> None:
    quick_place(_Runner(), meters="estimate", source="estimated")
    told = learning.learn("quick").machine.provenance
    assert told["source"] == "estimated"
    assert (
        "energy is time × an estimated power: no meter counts it here"
        in (told["caveats"])
    )


class _Half(_Runner):
    """Another process takes half the machine now and then: all takes twice as long."""

    def measure(self, item: Item) -> Measured:
        found = super().measure(item)
        if int(item.key.rpartition(" ")[2], 36) % 3:
            return found
        ops = tuple(op._replace(hot_s=2 * op.hot_s) for op in found.ops)
        whole = found.whole and found.whole._replace(seconds=2 * found.whole.seconds)
        return replace(found, ops=ops, whole=whole, flags=("busy",), others=50.0)


def test_half_the_machine_taken_by_another_weighs_less(
    quick_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "PAUSE_S", 0.0)
    quick_place(_Half())
    busy = learning.learn("quick", name="busy").machine
    quick_place(_Runner())
    calm = learning.learn("quick", name="calm", fresh=True).machine
    assert busy.provenance["disturbed"]["busy"] > 0
    op = samples_of([Measured("x", "products", ops=(_op(128, 256, 256),))], 1.0)[0]
    seconds = [float(m.model.watched_s(op.ops, np.zeros(1))[0]) for m in (busy, calm)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.15)
    assert busy.width("module", 1e-3) > calm.width("module", 1e-3)


def test_a_node_of_every_kind_is_learned(
    learned: LearnedMachine, own_home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("epyc: {kind: local}\nbroken: {kind: local}\n")
    own_home.mkdir()
    named = replace(learned.hardware, name="epyc")
    sent = json.dumps(replace(learned, hardware=named).to_dict())
    (own_home / "epyc.json").write_text(sent)
    kinds = fleet.read_nodes(file)
    work = "tests.collect.made_up_work:learned_node"
    nodes = {n.name: n for n in fleet.learn_nodes(kinds, "quick", work=work)}
    assert nodes["epyc"].path is not None
    assert find_machine("epyc").hardware.name == "epyc"
    assert nodes["broken"].path is None
    assert "broken.json" in nodes["broken"].problem
    file.write_text("epyc: {kind: slurm, slurm: {gpu: 1}}\n")
    with pytest.raises(UsageError, match=r"cluster.yaml:1.*did you mean gpus"):
        fleet.read_nodes(file)


def test_nodes_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("epyc: {kind: local}\nold: {kind: local}\n")
    nodes = [
        fleet.LearnedNode("epyc", tmp_path / "epyc.json", "node7"),
        fleet.LearnedNode("old", None, "", "no torch"),
    ]
    monkeypatch.setattr(fleet, "learn_nodes", lambda *_: iter(nodes))
    assert main(["learn", "--quick", "--nodes", str(file), "--json"]) == 1
    told = capsys.readouterr()
    assert [n["host"] for n in json.loads(told.out)["nodes"]] == ["node7", ""]
    assert "old (nowhere): not learned: no torch" in told.err


def test_learning_as_a_job_of_the_server(
    quick_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from irene.serve.computing import worker

    steps: list[tuple[int, int, str]] = []
    monkeypatch.setattr(worker, "report", lambda *step: steps.append(step))
    quick_place(_Runner())
    document = json.loads(worker.learn_job({"plan": "quick"}))
    assert document["schema"] == "irene.learned/1"
    assert document["hardware"]["name"] == "this-machine"
    assert steps[0] == (0, 0, "loading the libraries")
    assert steps[-1] == (60, 60, "sitting the exam")
    assert find_machine("this-machine").digest


def test_fleet_and_use_on_the_command_line(
    learned: LearnedMachine, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_machine(learned)
    assert main(["hardware"]) == 0
    text = capsys.readouterr().out
    assert "this-machine" in text
    assert "h100" in text
    assert "predictions are for this-machine" in text
    assert main(["hardware", "use", "pc1"]) == 0
    assert "predictions are for pc1" in capsys.readouterr().out
    assert main(["hardware", "--json", "pc1"]) == 0
    assert json.loads(capsys.readouterr().out)["default"]["name"] == "pc1"
    assert main(["hardware", "use", "nowhere"]) == 2


def test_real_ops_are_timed_inside_a_model() -> None:
    from irene.measure.inside.items import part_rows
    from irene.measure.inside.op_timing import clock_of, prepare, timed_ops
    from irene.spec import RunSpec

    run = {"batch_size": 2, "context_len": 6, "phase": "decode"}
    target = prepare("pythia-14m", RunSpec.asked("pythia-14m", run), "cpu")
    tree, hot_s = timed_ops(target, 2, clock_of("cpu", lambda: None), lambda: None)
    ops, parts = part_rows(tree, hot_s, hot_s)
    assert (hot_s[tree.columns.kind == 3] > 0).all()
    assert sum(op.times for op in ops) == int((tree.columns.kind == 3).sum())
    cache = target.kwargs["past_key_values"]
    assert cache.get_seq_length() == 6  # as before the runs
    assert {part.name for part in parts} >= {"GPTNeoXLayer", "GPTNeoXAttention"}
    traced = irene.trace("pythia-14m", **run)
    assert sorted(set(traced.by_operator())) == sorted(set(tree.by_operator()))


def test_errors_are_of_blocks_left_out() -> None:
    rng = random.Random(2)
    block = Block("bert", {}, {})
    items = [_made_up(Item(f"b {i}", "blocks", block=block), rng) for i in range(12)]
    found = errors_left_out(samples_of(items, 1.0), 0.0)
    assert len(found["bert"]["model"]) == 12


def test_flags_of_measured_trees_are_counted_and_told() -> None:
    from irene.predict.learning.own_data import _disturbed

    tree = irene.trace("bert-l2-h128", seq_len=8)
    busy = np.where(np.arange(len(tree)) % 2 == 0, 2.0, np.nan)
    share, caveats = _disturbed([tree.with_features({"rounds_busy": busy})])
    assert share == pytest.approx(0.5, abs=0.01)
    assert "another process was busy in rounds of" in caveats[0]
    assert _disturbed([tree]) == (0.0, ())


class _Event:
    """As `torch.cuda.Event`: its time is known once the device has reached it."""

    clock_ms = iter(())

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at_ms, self.is_reached = 0.0, False

    def record(self) -> None:
        self.at_ms = next(self.clock_ms)

    def synchronize(self) -> None:
        self.is_reached = True

    def elapsed_time(self, end: _Event) -> float:
        assert end.is_reached
        return end.at_ms - self.at_ms


def test_a_gpu_says_itself_how_long_an_op_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from irene.measure.inside.op_timing import clock_of

    for name in ("record", "synchronize", "elapsed_time"):  # what is used is there
        assert callable(getattr(torch.cuda.Event, name))
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(_Event, "clock_ms", iter((1.0, 3.5, 4.0, 5.0)))
    clock = clock_of("cuda:1", lambda: None)
    taken = [clock.end(clock.begin()) for _ in range(2)]
    assert clock.seconds(taken) == pytest.approx(3.5e-3)


def test_other_devices_are_waited_for_around_every_op() -> None:
    from irene.measure.inside.op_timing import clock_of

    waits: list[int] = []
    clock = clock_of("mps", lambda: waits.append(1))
    taken = clock.end(clock.begin())
    assert len(waits) == 2
    assert clock.seconds([taken]) >= 0


def _experts(rows: int, groups: int, n: int, k: int) -> OpTime:
    """As many products as experts get rows, one after the other."""
    hit = round(groups * (1 - (1 - 1 / groups) ** rows))
    one = _op(max(1, round(rows / hit)), n, k)
    shapes = ((rows, k), (groups, k, n)), ((rows, n),)
    names = "transformers.grouped_mm_fallback", "grouped_mm"
    rest = one.dtype, 2 * rows * n * k, hit * one.moved, 1, hit * one.hot_s, 0.0, 0.0
    return OpTime(*names, *shapes, *rest)


def test_experts_take_what_their_products_take() -> None:
    """Of few experts that were measured, those of other sizes are known."""
    rng, block = random.Random(4), Block("mixtral", {}, {})
    items = [_made_up(Item(f"p {i}", "products"), rng) for i in range(30)]
    for i, rows in enumerate((16, 64, 256, 512)):
        found = _made_up(Item(f"b {i}", "blocks", block=block), rng)
        experts = _experts(rows, 8, 128 + 32 * i, 256)
        items.append(replace(found, ops=(*found.ops, experts)))
    model = fit_times(samples_of(items, 1.0), 0.0)
    op = _experts(96, 16, 400, 300)
    sample = samples_of([Measured("x", "products", ops=(op,))], 1.0)[0]
    found_s = model.watched_s(sample.ops, np.zeros(1))
    assert found_s[0] == pytest.approx(op.hot_s, rel=0.2)
