"""Every joule that was measured is in the ledger, whatever the input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.account import (
    PHASES,
    ConservationError,
    Events,
    EventsBuilder,
    PowerSeries,
    attribute,
)
from irene.account.align import attribution
from irene.account.align.alignment import Aligned, align

BEGIN_NS = 1_700_000_000_000_000_000
DEVICES = ("cpu", "cuda:0", "cuda:1")


def made(rng: np.random.Generator, count: int) -> Events:
    builder = EventsBuilder()
    start = BEGIN_NS + rng.integers(0, 10**6, count)
    length = rng.integers(0, 10 ** int(rng.integers(1, 6)), count)
    for i in range(count):
        builder.add(
            f"op{i % 5}",
            int(start[i]),
            int(start[i] + length[i]),
            device=DEVICES[rng.integers(3)],
            lane=str(rng.integers(3)),
            scope=("", "a", "a.0", "a.1.b")[rng.integers(4)],
            phase=PHASES[rng.integers(len(PHASES))],
            step=int(rng.integers(-1, 2)),
            is_mark=bool(rng.random() < 0.2),
            flops=float(10 ** rng.uniform(-3, 15)),
        )
    return builder.build(("one", "two"))


def power(rng: np.random.Generator) -> PowerSeries:
    count = int(rng.integers(2, 200))
    times = np.unique(rng.integers(-(10**5), 12 * 10**5, count + 1))
    watts = rng.uniform(0, 10 ** rng.uniform(-3, 6), len(times))
    watts[rng.random(len(times)) < rng.choice([0.0, 0.3])] = np.nan
    facts = {
        "device": ("", *DEVICES)[rng.integers(4)],
        "idle_w": None if rng.random() < 0.5 else float(rng.uniform(0, 1e3)),
        "share": None if rng.random() < 0.5 else rng.random(len(times) - 1),
        "relative_error": float(rng.choice([0.0, 0.1])),
    }
    if rng.random() < 0.5:
        joules = np.cumsum(watts)
        return PowerSeries.from_counter("counter", BEGIN_NS + times, joules, **facts)
    return PowerSeries.from_power("sensor", BEGIN_NS + times, watts, **facts)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 120),
    channels=st.integers(1, 3),
    split=st.sampled_from(["equal", "flops"]),
)
def test_every_joule_is_in_the_ledger(
    seed: int, count: int, channels: int, split: str
) -> None:
    rng = np.random.default_rng(seed)
    events = made(rng, count)
    series = [power(rng) for _ in range(channels)]
    window = (BEGIN_NS - 10**4, BEGIN_NS + 10**6)
    ledger = attribute(events, series, split=split, window_ns=window)  # type: ignore[arg-type]
    rest = sum(row.energy.joules for row in ledger.rest() if row.energy)
    assert ledger.attributed_j + rest == pytest.approx(ledger.measured_j, rel=1e-9)
    assert ledger.energy_j.sum() == pytest.approx(ledger.attributed_j, rel=1e-9)
    for found in ledger.accounts:
        assert abs(found.difference_j) <= 1e-9 * found.measured_j
    for view in (ledger.by_op(), ledger.by_phase(), ledger.by_device()):
        rows_j = sum(row.energy.joules for row in view if row.energy)
        assert rows_j == pytest.approx(ledger.attributed_j, rel=1e-9, abs=1e-300)
    modules = ledger.by_module()
    top_j = modules[0].energy.joules if modules[0].energy else 0.0
    assert top_j == pytest.approx(ledger.attributed_j, rel=1e-9)
    assert sum(modules[0].phase_j.values()) == pytest.approx(ledger.attributed_j)
    tree = ledger.tree()
    assert tree.total().energy_j == pytest.approx(ledger.measured_j, rel=1e-9)
    below = [child.energy.joules for child in tree.root.children if child.energy]
    assert sum(below) == pytest.approx(ledger.measured_j, rel=1e-9)


def test_a_ledger_that_does_not_add_up_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def losing(*arguments: object) -> Aligned:
        found = align(*arguments)  # type: ignore[arg-type]
        less_j = found.account.attributed_j * (1 - 1e-8)
        return replace(found, account=replace(found.account, attributed_j=less_j))

    builder = EventsBuilder()
    builder.add("op", BEGIN_NS, BEGIN_NS + 10**9)
    times = BEGIN_NS + np.arange(11) * 10**8
    one = PowerSeries.from_power("sensor", times, np.full(11, 100.0), device="cpu")
    monkeypatch.setattr(attribution, "align", losing)
    with pytest.raises(ConservationError, match=r"sensor: 100\..* J are missing"):
        attribute(builder.build(), [one])
