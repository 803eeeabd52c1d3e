"""What a user reads off a ledger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irene.account import EventsBuilder, Ledger, PowerSeries, attribute
from irene.errors import UsageError
from irene.tree import ModelTree, TreeBuilder
from tests.account.simulated import BEGIN_NS, MS, Machine, Op

STEP_MS = 100.0


def training(steps: int = 3) -> Machine:
    """Two layers and an optimizer; layer 1 costs twice as much as layer 0."""
    ops = []
    for step in range(steps):
        at = step * STEP_MS
        factor = 1.0 + 0.1 * step
        for name, scope, phase, begin, length, watts in (
            ("aten::addmm", "encoder.layer.0", "forward", 0, 10, 100.0),
            ("aten::addmm", "encoder.layer.1", "forward", 10, 10, 200.0),
            ("aten::mm", "encoder.layer.1", "backward", 20, 20, 200.0),
            ("aten::mm", "encoder.layer.0", "backward", 40, 20, 100.0),
            ("aten::add_", "", "optimizer", 60, 20, 50.0),
        ):
            ops.append(
                Op(
                    name,
                    at + begin,
                    at + begin + length,
                    watts * factor,
                    scope=scope,
                    phase=phase,
                    step=step,
                )
            )
    return Machine(ops, idle_w=10.0)


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    machine = training()
    power = machine.counter(1.0, idle_w=10.0, relative_error=0.05)
    return attribute(machine.events(("#1", "#2", "#3")), [power])


def test_phases_add_up_and_come_largest_first(ledger: Ledger) -> None:
    rows = ledger.by_phase()
    assert [row.name for row in rows] == ["backward", "forward", "optimizer"]
    # Ops and the 10 W below them: backward 6 J, forward 3 J, optimizer 1 J a step.
    scale = 1.0 + 1.1 + 1.2
    assert rows[0].energy_j == pytest.approx(6.0 * scale + 3 * 0.4)
    assert rows[1].energy_j == pytest.approx(3.0 * scale + 3 * 0.2)
    assert rows[0].energy_j + rows[1].energy_j + rows[2].energy_j == pytest.approx(
        ledger.attributed_j
    )
    assert rows[0].power_w == pytest.approx(rows[0].energy_j / 0.12)


def test_steps_give_error_bars(ledger: Ledger) -> None:
    spread = ledger.by_phase()[0].steps
    assert spread is not None
    assert spread.steps == 3
    steps_j = [6.0 * factor + 0.4 for factor in (1.0, 1.1, 1.2)]
    assert spread.mean_j == pytest.approx(np.mean(steps_j))
    assert spread.std_j == pytest.approx(np.std(steps_j, ddof=1))
    assert (spread.least_j, spread.most_j) == pytest.approx((steps_j[0], steps_j[2]))


def test_modules_carry_what_is_below_them(ledger: Ledger) -> None:
    rows = {row.path: row for row in ledger.by_module()}
    assert list(rows) == [
        "", "encoder", "encoder.layer", "encoder.layer.0", "encoder.layer.1",
    ]  # fmt: skip
    layers = rows["encoder.layer.0"], rows["encoder.layer.1"]
    assert rows["encoder"].energy_j == pytest.approx(
        sum(layer.energy_j for layer in layers)
    )
    assert sum(layer.parent_share for layer in layers) == pytest.approx(1.0)
    for layer in layers:
        assert layer.backward_j == pytest.approx(2 * layer.forward_j)
        assert layer.forward_j + layer.backward_j == pytest.approx(layer.energy_j)
    assert [row.path for row in ledger.by_layer()] == list(rows)[3:]


def test_operations_merge_layers(ledger: Ledger) -> None:
    rows = ledger.operations(top=2)
    assert [(row.scope, row.op, row.phase) for row in rows] == [
        ("encoder.layer.#", "aten::mm", "backward"),
        ("encoder.layer.#", "aten::addmm", "forward"),
    ]
    assert rows[0].count == 6


def test_energies_carry_source_and_interval(ledger: Ledger) -> None:
    energy = ledger.total()
    assert energy == ledger.total  # without brackets, too
    assert energy.source == "measured"
    assert energy.produced_by == "counter"
    assert energy.high == pytest.approx(1.05 * energy.joules)
    row = ledger.by_phase()[0]
    assert row.energy is not None
    assert row.energy.low <= row.energy.joules * 0.95
    assert row.energy.high <= ledger.total().high


def test_what_a_counter_did_not_tell_widens_all_that_is_summed() -> None:
    machine = training(10)
    whole = machine.counter(1.0, relative_error=0.05)
    begin_w = whole.begin_w.copy()
    begin_w[100:110] = np.nan
    series = replace(whole, begin_w=begin_w, end_w=begin_w)
    ledger = attribute(machine.events(), [series])
    gap_j = whole.window_j(*ledger.window_ns) - ledger.measured_j
    total = ledger.total()
    assert 0 < gap_j < total.high - 1.05 * total.joules < 2 * gap_j
    (row,) = (row for row in ledger.by_op() if row.unknown_s > 0.009)
    assert row.energy is not None
    mean_w = row.energy_j / (row.time_s - row.unknown_s)
    least_j = 0.05 * row.energy_j + 0.999 * mean_w * row.unknown_s
    assert row.energy.high - row.energy_j >= min(least_j, total.high - row.energy_j)


def test_an_estimated_channel_makes_estimated_rows() -> None:
    machine = training(1)
    ledger = attribute(machine.events(), [machine.counter(1.0, source="estimated")])
    assert {row.energy.source for row in ledger.by_op() if row.energy} == {"estimated"}
    assert "J estimated, " in repr(ledger)


def test_what_the_sensor_cannot_resolve_is_flagged_and_its_group_given() -> None:
    machine = training()
    ledger = attribute(machine.events(), [machine.counter(1.0, resolution_s=0.015)])
    rows = {row.path: row for row in ledger.by_module()}
    # A layer runs for 10 ms forward and 20 ms backward, 15 ms on average.
    assert rows["encoder.layer.1"].resolved
    coarse = attribute(machine.events(), [machine.counter(1.0, resolution_s=0.05)])
    row = next(row for row in coarse.by_op() if row.name == "aten::addmm")
    assert not row.resolved
    assert row.group == "encoder.layer"
    assert row.group_energy is not None
    layers = {row.path: row for row in coarse.by_module()}["encoder.layer"]
    assert row.group_energy.joules == layers.energy_j
    assert row.energy is not None
    assert row.energy.low == 0.0
    assert not coarse.resolved.any()


def test_the_tree_is_the_one_everybody_uses(ledger: Ledger) -> None:
    tree = ledger.tree()
    assert tree.total().energy_j == pytest.approx(ledger.measured_j)
    layer = tree.find("encoder.layer.1")
    assert layer.energy is not None
    assert {node.name for node in layer.children} == {
        "aten::addmm", "aten::mm (backward)",
    }  # fmt: skip
    assert tree.find("(idle)").energy is not None
    assert tree.find("(optimizer)").children[0].op == "aten::add_"
    assert tree.own_j is not None
    has_children = [bool(node.children) for node in tree.nodes()]
    assert abs(tree.own_j[has_children]).max() < 1e-9 * ledger.measured_j


def costs() -> ModelTree:
    builder = TreeBuilder()
    root = builder.add(-1, "", "model", "Net")
    encoder = builder.add(root, "encoder", "module", "Encoder")
    for i in range(2):
        builder.add(
            encoder, f"layer.{i}", "module", "Layer",
            flops=4 * 10**9, bytes_read=10**9, params=7,
        )  # fmt: skip
    return builder.build()


def test_a_trace_gives_joules_per_flop_and_byte(ledger: Ledger) -> None:
    rows = {row.path: row for row in ledger.by_module(costs())}
    layer = rows["encoder.layer.1"]
    assert layer.flops == 12e9  # three steps
    assert layer.j_per_gflop == pytest.approx(layer.energy_j / 12)
    assert layer.j_per_byte == pytest.approx(layer.energy_j / 3e9)
    tree = ledger.tree(costs())
    assert tree.find("encoder.layer.1").flops == 12 * 10**9
    assert tree.find("encoder.layer.1").op == "Layer"
    assert tree.root.flops == 24 * 10**9


def test_a_timeline_has_power_steps_and_modules(ledger: Ledger) -> None:
    view = ledger.timeline(depth=3)
    curve = view.curves["counter"]
    assert len(curve.time_s) == len(curve.power_w) + 1
    seconds = np.diff(curve.time_s)
    assert (curve.power_w * seconds).sum() == pytest.approx(ledger.measured_j)
    first = view.stretches[0]
    assert (first.scope, first.phase) == ("encoder.layer.0", "forward")
    assert (first.start_s, first.end_s) == pytest.approx((0.0, 0.01))
    assert view.steps[1] == ("#2", pytest.approx(0.1), pytest.approx(0.18))


def test_devices_without_power_are_told_and_not_zero() -> None:
    builder = EventsBuilder()
    builder.add("a", BEGIN_NS, BEGIN_NS + 10 * MS, device="cuda:0")
    builder.add("b", BEGIN_NS, BEGIN_NS + 10 * MS, device="cuda:1")
    times = BEGIN_NS + np.arange(11) * MS
    power = PowerSeries.from_power("nvml:0", times, np.full(11, 100.0), device="cuda:0")
    ledger = attribute(builder.build(), [power])
    assert [row.name for row in ledger.by_device()] == ["cuda:0"]
    assert any("cuda:1" in note and "1 events" in note for note in ledger.notes)


def test_two_channels_of_one_device_add_up() -> None:
    builder = EventsBuilder()
    builder.add("op", BEGIN_NS, BEGIN_NS + 10 * MS)
    times = BEGIN_NS + np.arange(11) * MS
    package, dram = (
        PowerSeries.from_power(name, times, np.full(11, watts), device="cpu")
        for name, watts in (("package", 100.0), ("dram", 20.0))
    )
    ledger = attribute(builder.build(), [package, dram])
    assert ledger.by_op()[0].energy_j == pytest.approx(1.2)
    assert [a.attributed_j for a in ledger.accounts] == pytest.approx([1.0, 0.2])
    part = [replace(package, without=("package-1",)), dram]
    said = attribute(builder.build(), part).total().produced_by
    assert said == "package, dram without package-1"


def test_files_of_different_times_are_refused_with_the_offset_that_helps() -> None:
    machine = training(1)
    power = machine.counter(1.0).moved(3_600_000_000_000)
    with pytest.raises(
        UsageError, match=r"do not overlap.*--offset-s -3600\."
    ) as caught:
        attribute(machine.events(), [power])
    assert str(caught.value).count("2023-11-14") == 4
    offset_s = float(str(caught.value).split("--offset-s ")[1].split()[0])
    ledger = attribute(machine.events(), [power.moved(round(offset_s * 1e9))])
    assert ledger.attributed_j > 0


def test_nothing_to_account_for_is_refused() -> None:
    machine = training(1)
    with pytest.raises(UsageError, match="no op events"):
        attribute(EventsBuilder().build(), [machine.counter(1.0)])
    with pytest.raises(UsageError, match="no power"):
        attribute(machine.events(), [])
    with pytest.raises(UsageError, match="flops"):
        attribute(machine.events(), [machine.counter(1.0)], split="flops")
