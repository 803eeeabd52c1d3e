"""A machine with known power per op: the ledger finds it, and Smaragdine's mistakes do
not happen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irene.account import Events, EventsBuilder, Ledger, PowerSeries, attribute
from tests.account.simulated import BEGIN_NS, MS, Machine, Op


def by_name(ledger: Ledger) -> dict[str, float]:
    return {row.name: row.energy_j for row in ledger.by_op()}


def back_to_back(count: int, length_ms: float, **fields: object) -> list[Op]:
    """Ops that follow each other at once, each with a power of its own."""
    rng = np.random.default_rng(0)
    return [
        Op(f"op{i}", i * length_ms, (i + 1) * length_ms, w, **fields)  # type: ignore[arg-type]
        for i, w in enumerate(rng.uniform(50, 350, count).tolist())
    ]


@pytest.mark.parametrize(
    ("length_ms", "shift_ms"), [(4.0, 0.0), (4.1, 0.7), (5.3, 1.9)]
)
def test_ops_of_two_samples_or_more_of_a_counter(
    length_ms: float, shift_ms: float
) -> None:
    # Ops begin and end inside samples of 2 ms; neighbours differ up to 7×.
    ops = back_to_back(40, length_ms)
    ops = [
        replace(op, begin_ms=op.begin_ms + shift_ms, end_ms=op.end_ms + shift_ms)
        for op in ops
    ]
    before, after = Op("before", 0.0, shift_ms, 100.0), Op("after", 0, 0, 100.0)
    after = replace(after, begin_ms=ops[-1].end_ms, end_ms=ops[-1].end_ms + 10)
    machine = Machine([*([before] if shift_ms else []), *ops, after])
    ledger = attribute(machine.events(), [machine.counter(2.0)])
    # An op of two samples contains a whole one only if it lasts for three, or begins
    # with one: those that do must be right.
    checked = 0
    for op in ops[1:-1]:
        whole = np.floor(op.end_ms / 2.0) - np.ceil(op.begin_ms / 2.0)
        neighbours = [ops[ops.index(op) - 1], ops[ops.index(op) + 1]]
        clear = all(
            np.floor(o.end_ms / 2.0) - np.ceil(o.begin_ms / 2.0) >= 1
            for o in neighbours
        )
        if whole >= 1 and clear:
            checked += 1
            assert by_name(ledger)[op.name] == pytest.approx(op.energy_j(), rel=0.01)
    assert checked == len(ops) - 2


@pytest.mark.parametrize("samples", [2.5, 5, 10, 30])
@pytest.mark.parametrize("gap_ms", [0.0, 0.001, 0.1, 3.0])
@pytest.mark.parametrize("sensor", ["counter", "instant"])
def test_two_ops_in_turn_come_out_right_with_pauses_between_them(
    samples: float, gap_ms: float, sensor: str
) -> None:
    ops, now_ms = [], 0.0
    for _ in range(12):
        for name, power_w in (("dear", 300.0), ("cheap", 60.0)):
            # Not a whole number of samples: edges fall anywhere in them.
            end_ms = round(now_ms + samples + 0.237, 3)
            ops.append(Op(name, now_ms, end_ms, power_w))
            now_ms = round(end_ms + gap_ms, 3)
    machine = Machine([*ops, Op("end", now_ms, now_ms + 5, 60.0)])
    ledger = attribute(machine.events(), [getattr(machine, sensor)(1.0)])
    for row in ledger.by_op():
        if row.name == "end":
            continue
        truth_j = sum(op.energy_j() for op in ops if op.name == row.name)
        assert row.energy_j == pytest.approx(truth_j, rel=0.03)
        assert row.energy is not None
        assert row.energy.low * 0.999 <= truth_j <= row.energy.high * 1.001


def test_constant_power_per_op_and_a_sensor_of_instantaneous_power() -> None:
    machine = Machine(back_to_back(20, 40.0))
    ledger = attribute(machine.events(), [machine.instant(0.1)])
    for op in machine.ops:
        assert by_name(ledger)[op.name] == pytest.approx(op.energy_j(), rel=0.01)


def test_ops_with_pauses_of_two_samples() -> None:
    ops = [Op(f"op{i}", 10.0 * i + 0.7, 10.0 * i + 5.3, 200.0 + i) for i in range(50)]
    machine = Machine([*ops, Op("end", 500.0, 510.0, 200.0)], idle_w=20.0)
    ledger = attribute(machine.events(), [machine.counter(2.0, idle_w=20.0)])
    for op in ops[1:]:
        truth_j = op.energy_j() + 20.0 * 4.6e-3
        assert by_name(ledger)[op.name] == pytest.approx(truth_j, rel=0.01)


def test_ramps() -> None:
    ops = [
        Op("rises", 0.0, 30.0, 50.0, 250.0),
        Op("falls", 30.0, 70.0, 250.0, 100.0),
        Op("flat", 70.0, 100.0, 100.0),
    ]
    machine = Machine(ops)
    # A sensor of instantaneous power and the trapezoid rule see a ramp as it is.
    ledger = attribute(machine.events(), [machine.instant(10.0)])
    for op in ops:
        assert by_name(ledger)[op.name] == pytest.approx(op.energy_j(), rel=0.01)
    half = replace(ops[0], end_ms=15.0, last_w=150.0)
    parts = [half, replace(ops[0], name="second half", begin_ms=15.0, first_w=150.0)]
    split = attribute(Machine([*parts, *ops[1:]]).events(), [machine.instant(10.0)])
    assert by_name(split)["rises"] == pytest.approx(half.energy_j(), rel=0.01)


def test_concurrent_streams_share_and_a_lone_one_does_not() -> None:
    ops = [
        Op("a", 0.0, 40.0, 150.0, lane="7"),
        Op("b", 20.0, 60.0, 150.0, lane="20"),
    ]
    machine = Machine(ops)
    ledger = attribute(machine.events(), [machine.counter(1.0)])
    # Alone 20 ms at 150 W, together 20 ms at 300 W: the truth, as both are equal.
    for op in ops:
        assert by_name(ledger)[op.name] == pytest.approx(6.0, rel=0.01)


@pytest.mark.parametrize("split", ["flops", "threads", "sm"])
def test_concurrent_streams_share_by_weight(split: str) -> None:
    heavy = Op("heavy", 0.0, 40.0, 225.0, lane="7", weights={split: 3e9})
    light = Op("light", 0.0, 40.0, 75.0, lane="20", weights={split: 1e9})
    machine = Machine([heavy, light])
    ledger = attribute(machine.events(), [machine.counter(1.0)], split=split)  # type: ignore[arg-type]
    for op in (heavy, light):
        assert by_name(ledger)[op.name] == pytest.approx(op.energy_j(), rel=0.01)


def test_a_counter_that_wraps_is_unknown_there_and_nowhere_else() -> None:
    machine = Machine(back_to_back(10, 20.0))
    whole = machine.counter(1.0)
    energy_j = np.concatenate(([0.0], np.cumsum(whole.begin_w * 1e-3)))
    wrapped = np.where(np.arange(len(energy_j)) > 50, energy_j - 5.0, energy_j)
    series = PowerSeries.from_counter("c", whole.time_ns, wrapped, device="cuda:0")
    ledger = attribute(machine.events(), [series])
    assert ledger.rest()[-1].time_s == pytest.approx(0.001)
    for op in machine.ops:
        if op.name != "op2":  # whose 51st ms is lost
            assert by_name(ledger)[op.name] == pytest.approx(op.energy_j(), rel=0.01)
    lost = next(row for row in ledger.by_op() if row.name == "op2")
    assert lost.unknown_s == pytest.approx(0.001)
    assert lost.energy_j == pytest.approx(machine.ops[2].energy_j() * 0.95, rel=0.01)
    assert lost.power_w == pytest.approx(machine.ops[2].first_w, rel=0.01)


# Smaragdine's mistakes --------------------------------------------------------


def test_an_op_is_not_charged_for_the_interval_after_it_ends() -> None:
    machine = Machine([Op("low", 0.0, 10.0, 10.0), Op("high", 10.0, 20.0, 300.0)])
    ledger = attribute(machine.events(), [machine.counter(4.0)])
    # The sample from 8 to 12 ms holds both; each gets its own 2 ms of it.
    assert by_name(ledger) == pytest.approx({"low": 0.1, "high": 3.0})


def test_a_short_op_inside_a_sample_gets_what_its_neighbours_leave() -> None:
    ops = [Op("a", 0.0, 9.0, 100.0), Op("b", 9.0, 10.0, 300.0), Op("c", 10.0, 20, 100)]
    machine = Machine(ops)
    ledger = attribute(machine.events(), [machine.counter(4.0)])
    # The sample from 8 to 12 ms holds 0.6 J; the samples beside it say that a and c
    # took 0.1 J and 0.2 J of it. One call alone is still below what a sensor resolves.
    assert by_name(ledger)["b"] == pytest.approx(0.3)
    row = next(row for row in ledger.by_op() if row.name == "b")
    assert not row.resolved
    assert row.energy is not None
    assert row.energy.low <= 0.3 <= row.energy.high + 1e-12
    assert row.group == "(whole program)"
    assert row.group_energy is not None
    assert row.group_energy.joules == pytest.approx(2.2)


def test_a_pause_belongs_to_nobody() -> None:
    ops = [Op("a", 0.0, 10.0, 100.0), Op("b", 50.0, 60.0, 100.0)]
    machine = Machine(ops, idle_w=20.0)
    ledger = attribute(machine.events(), [machine.counter(1.0, idle_w=15.0)])
    assert by_name(ledger) == pytest.approx({"a": 1.2, "b": 1.2})
    idle, _, above, _ = ledger.rest()
    assert idle.energy is not None
    assert above.energy is not None
    assert idle.energy.joules == pytest.approx(0.04 * 15.0)
    assert above.energy.joules == pytest.approx(0.04 * 5.0)


def test_a_gap_in_the_power_is_not_filled_in() -> None:
    machine = Machine(back_to_back(10, 20.0))
    whole = machine.counter(1.0)
    watts = whole.begin_w.copy()
    watts[40:80] = np.nan
    ledger = attribute(machine.events(), [replace(whole, begin_w=watts, end_w=watts)])
    assert {row.name for row in ledger.by_op() if row.energy is None} == {"op2", "op3"}
    assert ledger.rest()[-1].time_s == pytest.approx(0.04)
    known_j = sum(op.energy_j() for op in machine.ops if op.name not in ("op2", "op3"))
    assert ledger.measured_j == pytest.approx(known_j, rel=1e-6)
    assert any("no power of counter is known for 0.040 s" in n for n in ledger.notes)


def test_a_process_on_n_cpus_is_not_charged_n_sockets() -> None:
    reads = np.arange(0, 101) * 10 * MS
    socket_j = np.cumsum(np.full(101, 0.5))  # 50 W
    # Eight CPUs busy for this process alone, and nobody else.
    series = PowerSeries.from_counter(
        "rapl", BEGIN_NS + reads, socket_j, device="cpu", share=np.ones(100)
    )
    builder = EventsBuilder()
    for thread in range(8):
        builder.add("op", BEGIN_NS, BEGIN_NS + 1000 * MS, lane=str(thread))
    ledger = attribute(builder.build(), [series])
    assert ledger.attributed_j == pytest.approx(50.0)
    assert ledger.energy_j.tolist() == pytest.approx([50.0 / 8] * 8)


def test_half_of_the_machine_is_charged_half_and_the_rest_is_a_row() -> None:
    reads = np.arange(0, 101) * 10 * MS
    series = PowerSeries.from_counter(
        "rapl",
        BEGIN_NS + reads,
        np.cumsum(np.full(101, 0.5)),
        device="cpu",
        share=np.full(100, 0.5),
    )
    builder = EventsBuilder()
    builder.add("op", BEGIN_NS, BEGIN_NS + 1000 * MS)
    ledger = attribute(builder.build(), [series])
    assert ledger.attributed_j == pytest.approx(25.0)
    other = ledger.rest()[1]
    assert other.name == "other processes"
    assert other.energy is not None
    assert other.energy.joules == pytest.approx(25.0)


# Nested ops -------------------------------------------------------------------


def nested() -> Events:
    builder = EventsBuilder()
    rows = [("linear", 0, 100), ("addmm", 20, 80), ("copy_", 30, 50)]
    for name, begin, end in rows:
        builder.add(name, BEGIN_NS + begin * MS, BEGIN_NS + end * MS, scope="fc")
    return builder.build()


def test_nested_ops_are_charged_once_for_their_own_time() -> None:
    series = PowerSeries.from_power(
        "p", BEGIN_NS + np.arange(0, 101) * MS, np.full(101, 10.0), device="cpu"
    )
    ledger = attribute(nested(), [series])
    assert by_name(ledger) == pytest.approx({"linear": 0.4, "addmm": 0.4, "copy_": 0.2})
    fc = next(row for row in ledger.by_module() if row.path == "fc")
    assert fc.energy_j == pytest.approx(1.0)
    assert fc.time_s == pytest.approx(0.1)


def test_a_thread_that_waits_inside_a_mark_takes_nothing_from_an_op() -> None:
    builder = EventsBuilder()
    end = BEGIN_NS + 100 * MS
    builder.add("train", BEGIN_NS, end, lane="main", scope="loop", is_mark=True)
    builder.add("mm", BEGIN_NS + 20 * MS, BEGIN_NS + 60 * MS, lane="backward")
    series = PowerSeries.from_power(
        "p", BEGIN_NS + np.arange(0, 101) * MS, np.full(101, 10.0), device="cpu"
    )
    ledger = attribute(builder.build(), [series])
    assert by_name(ledger) == pytest.approx({"mm": 0.4, "(python)": 0.6})


def test_the_meter_of_the_whole_machine_charges_accelerators_first() -> None:
    builder = EventsBuilder()
    builder.add("launch", BEGIN_NS, BEGIN_NS + 50 * MS)
    kernel = BEGIN_NS + 20 * MS, BEGIN_NS + 80 * MS
    builder.add("kernel", *kernel, op="mm", device="cuda:0")
    wall = PowerSeries.from_power(
        "wall", BEGIN_NS + np.arange(0, 101) * MS, np.full(101, 10.0)
    )
    ledger = attribute(builder.build(), [wall])
    assert by_name(ledger) == pytest.approx({"launch": 0.2, "mm": 0.6})
