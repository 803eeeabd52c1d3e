"""Values become places, and the table is what is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.errors import UsageError
from irene.show.picture import (
    AxisSpec,
    Bar,
    Dot,
    Line,
    Picture,
    Span,
    TreeBox,
    bar_chart,
    boxes_of,
    distribution,
    heat_matrix,
    icicle_chart,
    in_a_column,
    line_chart,
    scatter,
    timeline,
    tree_chart,
)

from ...made_up import tree_of_own
from .reading import corners, elements, inside, marks, parsed, table, words

X, Y = AxisSpec("batch size"), AxisSpec("energy", "J", low=0)
NAN = math.nan


def line_points(picture: Picture) -> list[tuple[float, float]]:
    (line,) = [m for m in marks(picture) if m.tag.endswith("polyline")]
    return corners(line)


def ground_of(picture: Picture) -> float:
    """Where the upright axis has its zero."""
    return next(
        float(e.get("y", "")) - 4
        for e in elements(picture, "text")
        if e.text == "0" and e.get("text-anchor") == "end"
    )


def test_twice_the_value_is_twice_as_high():
    chart = line_chart([Line("a", [1, 2, 4], [10, 20, 40])], "t", X, Y)
    above = [ground_of(chart) - y for _, y in line_points(chart)]
    assert above[1] == pytest.approx(2 * above[0], abs=0.2)
    assert above[2] == pytest.approx(4 * above[0], abs=0.3)


def test_equal_ratios_are_equally_far_apart_on_an_axis_of_ratios():
    axis = AxisSpec("batch size", log=True)
    chart = line_chart([Line("a", [1, 10, 100], [1, 2, 3])], "t", axis, Y)
    a, b, c = (x for x, _ in line_points(chart))
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert c > a


def test_bars_are_as_long_as_their_values():
    chart = bar_chart([Bar("a", 30), Bar("b", 60), Bar("c", -15)], "t", Y)
    boxes = [corners(m) for m in marks(chart) if m.tag.endswith("rect")]
    lengths = [right - left for (left, _), (right, _) in boxes]
    assert lengths[1] == pytest.approx(2 * lengths[0], abs=0.2)
    assert lengths[2] == pytest.approx(lengths[0] / 2, abs=0.2)
    assert boxes[2][1][0] == pytest.approx(boxes[0][0][0], abs=0.1)  # ends at zero


def test_layers_of_a_timeline_stand_on_each_other():
    layers = {"cpu": [10, 10], "gpu": [30, 30]}
    chart = timeline([0, 1, 2], layers, "t", AxisSpec("power", "W"))
    cpu, gpu = (corners(m) for m in marks(chart) if m.tag.endswith("polygon"))
    ground, cpu_top = max(y for _, y in cpu), min(y for _, y in cpu)
    gpu_top = min(y for _, y in gpu)
    assert max(y for _, y in gpu) == cpu_top
    assert ground - gpu_top == pytest.approx(4 * (ground - cpu_top), abs=0.3)


def test_a_long_timeline_keeps_its_area():
    watts = np.random.default_rng(0).uniform(10, 90, 10_000)
    chart = timeline(np.arange(10_001), {"wall": watts}, "t", AxisSpec("power", "W"))
    rows = table(chart)
    assert len(rows) <= 1500
    energy = sum(
        (float(r["end_s"]) - float(r["begin_s"])) * float(r["wall"]) for r in rows
    )
    assert energy == pytest.approx(watts.sum())
    assert any("mean of 7 samples" in note for note in chart.notes)


def test_spans_at_the_same_time_do_not_cover_each_other():
    spans = [Span(0, 10, "outer"), Span(1, 4, "first"), Span(3, 6, "second")]
    chart = timeline([0, 10], {"cpu": [5]}, "t", AxisSpec("power", "W"), spans)
    tops = {e.get("y") for e in elements(chart, "rect") if "f-raised" in e.get("class")}
    assert len(tops) == 3


def test_a_distribution_climbs_to_all_of_them():
    chart = distribution({"a": [4, 1, 2, 3]}, "t", AxisSpec("error", "%"), "models")
    assert [(r["value"], r["percent"]) for r in table(chart)] == [
        ("1.0", "25.0"),
        ("2.0", "50.0"),
        ("3.0", "75.0"),
        ("4.0", "100.0"),
    ]
    heights = [y for _, y in line_points(chart)]
    assert heights == sorted(heights, reverse=True)


def test_the_front_goes_through_what_nothing_beats():
    points = [(4, 90, False), (1, 80, True), (3, 85, False), (2, 90, True)]
    dots = [Dot(x, y, f"{x}", on_front=best) for x, y, best in points]
    chart = scatter(dots, "t", X, Y)
    assert [r["front"] for r in table(chart)] == ["0", "1", "0", "1"]
    assert "better in both than 1, 2." in chart.description
    assert [y for _, y in line_points(chart)] == sorted(
        (y for _, y in line_points(chart)), reverse=True
    )


def test_names_of_points_do_not_cover_each_other():
    dots = [Dot(1 + i % 5 / 9, 1 + i // 5 / 9, f"model-{i}") for i in range(25)]
    chart = scatter(dots, "t", AxisSpec("x"), AxisSpec("y"))
    boxes = [
        (float(e.get("x")), float(e.get("y")) - 9, 7.0 * len(e.text or ""), 9.0)
        for e in elements(chart, "text")
        if (e.text or "").startswith("model-")
    ]
    assert boxes
    for i, (x, y, w, h) in enumerate(boxes):
        for a, b, c, d in boxes[:i]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
    homeless = sum(int(note.split()[0]) for note in chart.notes)
    assert len(boxes) + homeless == 25


def test_cells_say_their_values():
    chart = heat_matrix([[1200, NAN], [5, 30]], ["a", "b"], ["c", "d"], "t", "J")
    assert {"1.2 kJ", "5 J", "30 J", "–"} <= set(words(chart))
    assert [r["value"] for r in table(chart)] == ["1200.0", "5.0", "30.0"]
    assert chart.notes == ("1 of 4 cells are not known.",)


def test_boxes_of_an_icicle_are_as_wide_as_their_share():
    chart = icicle_chart(tree_of_own(), "t")
    widths = {
        row["path"]: right - left
        for row, ((left, _), (right, _)) in zip(
            table(chart), map(corners, marks(chart)), strict=True
        )
    }
    assert widths["layer.0"] == pytest.approx(0.8 * widths[""], abs=1)
    assert widths["head"] == pytest.approx(0.19 * widths[""], abs=1.5)


def test_the_annotated_tree_says_joules_and_shares():
    chart = tree_chart(boxes_of(tree_of_own()), "t")
    said = words(chart)
    assert {"Model", "layer.0…1 ×2", "8.00 J · 80.0%", "1.90 J · 19.0%"} <= set(said)
    joules = {row["name"]: row["energy_j"] for row in table(chart)}
    assert float(joules["Model"]) == pytest.approx(10.0)


def test_boxes_of_a_tree_do_not_cover_each_other():
    boxes = [TreeBox(f"n{i}", depth, 0.1) for i, depth in enumerate([0, 1, 2, 2, 1, 3])]
    chart = tree_chart(boxes, "t")
    placed = [corners(m) for m in marks(chart)]
    for i, ((a, b), (c, d)) in enumerate(placed):
        for (e, f), (g, h) in placed[:i]:
            assert c <= e or g <= a or d <= f or h <= b


def test_the_table_is_what_was_given():
    lines = [Line("a", [1, 2], [0.1 + 0.2, 1e-9], [0, 0], [1, 1])]
    rows = table(line_chart(lines, "t", X, Y))
    assert [float(r["y"]) for r in rows] == [0.1 + 0.2, 1e-9]
    assert [(r["low"], r["high"]) for r in rows] == [("0.0", "1.0")] * 2


def test_pictures_in_a_column_keep_their_tables():
    first = line_chart([Line("a", [1, 2], [3, 4])], "first", X, Y)
    second = bar_chart([Bar("b", 5)], "second", Y)
    both = in_a_column("both", [first, second])
    assert both.height == first.height + second.height
    rows = table(both)
    assert [r["picture"] for r in rows] == ["first", "first", "second"]
    assert rows[2]["value"] == "5"
    assert parsed(both) is not None


# What cannot be drawn --------------------------------------------------------


@pytest.mark.parametrize(
    "chart",
    [
        line_chart([], "t", X, Y),
        line_chart([Line("a", [], [])], "t", X, Y),
        line_chart([Line("a", [1], [NAN])], "t", X, Y),
        scatter([], "t", X, Y),
        bar_chart([], "t", Y),
        timeline([], {}, "t", Y),
        timeline([0], {"cpu": []}, "t", Y),
        distribution({}, "t", X),
        distribution({"a": []}, "t", X),
        heat_matrix([], [], [], "t"),
        tree_chart([], "t"),
    ],
)
def test_nothing_to_draw_says_so(chart: Picture):
    assert "no data" in words(chart)
    assert table(chart) == []


@pytest.mark.parametrize("value", [0, 5, -5, 1e-30, 1e30])
def test_a_single_point_has_a_place(value: float):
    chart = line_chart([Line("a", [value], [value])], "t", X, AxisSpec("y"))
    (mark,) = marks(chart)
    assert mark.tag.endswith("circle")
    assert inside(chart, mark)


def test_what_is_not_known_is_skipped_and_said():
    chart = line_chart([Line("a", [1, 2, 3, 4], [1, NAN, 3, 4])], "t", X, Y)
    assert chart.notes == ("1 value of a is not known: not drawn.",)
    assert chart.notes[0] in words(chart)
    assert [r["x"] for r in table(chart)] == ["1.0", "3.0", "4.0"]
    kinds = [m.tag.rpartition("}")[2] for m in marks(chart)]
    assert sorted(kinds) == ["circle", "polyline"]  # a gap is not bridged


def test_zero_has_no_place_on_an_axis_of_ratios():
    chart = line_chart(
        [Line("a", [0, 1, 2], [1, 2, 3])], "t", AxisSpec("x", log=True), Y
    )
    assert [r["x"] for r in table(chart)] == ["1.0", "2.0"]
    assert "not above zero" in chart.notes[0]


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
def test_infinite_values_are_refused(bad: float):
    with pytest.raises(UsageError, match="infinite"):
        line_chart([Line("a", [1], [bad])], "t", X, Y)
    with pytest.raises(UsageError, match="infinite"):
        scatter([Dot(1, bad)], "t", X, Y)
    with pytest.raises(UsageError, match="infinite"):
        bar_chart([Bar("a", 1, 0, bad)], "t", Y)
    with pytest.raises(UsageError, match="infinite"):
        timeline([0, 1], {"a": [bad]}, "t", Y)
    with pytest.raises(UsageError, match="infinite"):
        heat_matrix([[bad]], ["a"], ["b"], "t")
    with pytest.raises(UsageError, match="infinite"):
        distribution({"a": [bad]}, "t", X)


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="2 places, 1 values"):
        line_chart([Line("a", [1, 2], [1])], "t", X, Y)
    with pytest.raises(UsageError, match="do not grow"):
        timeline([0, 0], {"a": [1]}, "t", Y)
    with pytest.raises(UsageError, match="2 values for 1 steps"):
        timeline([0, 1], {"a": [1, 2]}, "t", Y)
    with pytest.raises(UsageError, match="negative"):
        timeline([0, 1], {"a": [-1]}, "t", Y)
    with pytest.raises(UsageError, match="do not fit"):
        heat_matrix([[1, 2]], ["a"], ["b"], "t")


# Whatever comes --------------------------------------------------------------

numbers = st.floats(-1e306, 1e306) | st.just(NAN)
names = st.text(max_size=12)
pairs = st.lists(st.tuples(numbers, numbers))


def check(picture: Picture) -> None:
    """No size is negative, no mark outside, and the text is XML."""
    assert picture.svg() == picture.svg()
    for element in parsed(picture).iter():
        for name in ("width", "height", "r"):
            value = element.get(name, "0")
            assert value.endswith("%") or float(value) >= 0
    for mark in marks(picture):
        assert inside(picture, mark), (mark.attrib, picture.width, picture.height)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(names, pairs, st.booleans()), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_any_lines_fit(given_lines, log_x: bool, log_y: bool):
    lines = []
    for name, points, band in given_lines:
        ys = [y for _, y in points]
        low, high = ([y - abs(y) / 4 for y in ys], ys) if band else ([], [])
        lines.append(Line(name, [x for x, _ in points], ys, low, high))
    x, y = AxisSpec("x", "s", log=log_x), AxisSpec("y", "J", log=log_y)
    check(line_chart(lines, "t", x, y))


@settings(max_examples=60)
@given(
    st.lists(
        st.builds(Dot, numbers, numbers, names, names, on_front=st.booleans()),
        max_size=12,
    ),
    st.booleans(),
)
def test_any_points_fit(dots: list[Dot], log: bool):
    x = AxisSpec("x", "J", log=log)
    check(scatter(dots, "t", x, AxisSpec("y")))


@settings(max_examples=60)
@given(st.lists(st.builds(Bar, names, numbers), max_size=8))
def test_any_bars_fit(bars: list[Bar]):
    check(bar_chart(bars, "t", AxisSpec("x", "J")))


positive = st.floats(0, 1e12) | st.just(NAN)


@settings(max_examples=60)
@given(
    st.lists(st.floats(1e-6, 1e6), max_size=8),
    st.dictionaries(names, st.lists(positive, min_size=8, max_size=8), max_size=3),
)
def test_any_timeline_fits(steps: list[float], layers: dict[str, list[float]]):
    times = np.concatenate(([0.0], np.cumsum(steps)))
    held = {name: values[: len(steps)] for name, values in layers.items()}
    check(timeline(times, held, "t", AxisSpec("power", "W")))


@settings(max_examples=40)
@given(st.lists(numbers, min_size=6, max_size=6), names)
def test_any_matrix_and_distribution_fit(values: list[float], name: str):
    rows = [values[:3], values[3:]]
    check(heat_matrix(rows, [name, "b"], ["x", name, "z"], "t", "J"))
    check(distribution({name: values}, "t", AxisSpec("x")))


@settings(max_examples=40)
@given(st.lists(st.tuples(names, st.integers(0, 4), st.floats(0, 1)), max_size=12))
def test_any_tree_fits(nodes):
    check(tree_chart([TreeBox(*node, text="1 J") for node in nodes], "t"))
