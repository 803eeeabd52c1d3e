"""Axes and numbers that people like to read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from irene.show.picture.axis import TICK_SIZE, AxisSpec, make_axis
from irene.show.picture.lettering import shortened, text_width
from irene.show.picture.units import amount


@pytest.mark.parametrize(
    ("spec", "values", "names", "label"),
    [
        (AxisSpec("energy", "J"), [0, 4000], "0 1 2 3 4", "energy, kJ"),
        (AxisSpec("energy", "J"), [0, 0.004], "0 1 2 3 4", "energy, mJ"),
        (AxisSpec("time", "s"), [0, 0.02], "0 5 10 15 20", "time, ms"),
        (AxisSpec("time", "s"), [0, 240], "0 1 2 3 4", "time, min"),
        (AxisSpec("time", "s"), [0, 4 * 3600], "0 1 2 3 4", "time, h"),
        (AxisSpec("error", "%"), [0, 2000], "0 500 1000 1500 2000", "error, %"),
        (AxisSpec("layers"), [0, 4], "0 1 2 3 4", "layers"),
        (AxisSpec("share", ""), [0, 1], "0.0 0.5 1.0", "share"),
        (AxisSpec("change", "%"), [-10, 10], "−10 −5 0 5 10", "change, %"),
        (AxisSpec("e", "J", log=True), [0.1, 100], "0.1 1 10 100", "e, J"),
        (AxisSpec("e", "J", log=True), [1e-6, 1e3], "1 µJ|1 mJ|1 J|1 kJ", "e"),
    ],
)
def test_ticks_are_at_nice_numbers(spec, values, names, label):
    axis = make_axis(spec, values, 0, 300)
    assert axis.label == label
    wanted = names.split("|") if "|" in names else names.split()
    assert list(axis.names) == wanted


spans = st.tuples(st.floats(-1e12, 1e12, allow_subnormal=False), st.floats(1e-9, 1e12))


@example((100.0, 1e12), True, False, 80.0)
@given(spans, st.booleans(), st.booleans(), st.floats(80, 900))
def test_labels_of_ticks_do_not_touch(span, log, upright, length):
    low, width = span
    values = [abs(low) + 1e-9, abs(low) + 1e-9 + width] if log else [low, low + width]
    ends = (length, 0) if upright else (0, length)
    axis = make_axis(AxisSpec("x", "J", log=log), values, *ends)
    assert axis.low <= min(values)
    assert axis.high >= max(values)
    places = [axis.place(tick) for tick in axis.ticks]
    widths = [text_width(name, TICK_SIZE) for name in axis.names]
    for i in range(1, len(places)):
        needed = TICK_SIZE if upright else (widths[i - 1] + widths[i]) / 2
        assert abs(places[i] - places[i - 1]) >= needed


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "J", "0 J"),
        (54.83, "J", "54.8 J"),
        (999.96, "J", "1 kJ"),
        (0.00123, "J", "1.23 mJ"),
        (-1500, "W", "−1.5 kW"),
        (12.34, "%", "12.3 %"),
        (45, "s", "45 s"),
        (600, "s", "10 min"),
        (0.25, "s", "250 ms"),
        (1234567, "", "1.23 M"),
        (float("nan"), "J", "–"),
    ],
)
def test_amounts(value, unit, text):
    assert amount(value, unit) == text


def test_short_words_keep_their_ends():
    text = shortened("encoder.layer.0.attention.self.query", 12, 120)
    assert text.startswith("enc")
    assert text.endswith("uery")
    assert "…" in text
    assert text_width(text, 12) <= 120
    assert shortened("short", 12, 120) == "short"
    assert shortened("W", 12, 1) == ""
