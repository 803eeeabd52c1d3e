from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from irene.energy import Energy
from irene.errors import UsageError
from irene.human import (
    human_energy,
    human_error,
    human_range,
    human_spread,
    human_width,
)
from irene.show.text import ranged_path
from irene.show.view import largest_parts, view
from irene.spec import RunSpec
from irene.tree import EnergyColumns, Signature, TreeBuilder
from irene.tree.headline import energy_per_unit, energy_source

from ..made_up import tree_of_own, with_made_up_energy
from ..tree.conftest import trees
from ..tree.test_model_tree import small_tree


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (0, "0 J"),
        (54.8, "54.8 J"),
        (0.999, "999.0 mJ"),
        (0.99999, "1.00 J"),
        (1234.5, "1.23 kJ"),
        (3.6e6, "3.60 MJ"),
        (12.3e-6, "12.3 µJ"),
        (1e-15, "0.00 nJ"),
        (-0.0123, "−12.3 mJ"),
        (float("nan"), "–"),
    ],
)
def test_energies_are_readable(joules, text):
    assert human_energy(joules) == text


@pytest.mark.parametrize(
    ("low", "high", "spread", "text"),
    [
        (53.9, 55.7, "±1.6%", "54.8 J (53.9 – 55.7)"),
        (40, 100, "−27% +82%", "54.8 J (40.0 – 100.0)"),
        (0, 54.8, "−100% +0.0%", "54.8 J (0 – 54.8)"),
        (0, 137, "−100% +150%", "54.8 J (0 – 137.0)"),
        (21.92, 137, "factor 2.5", "54.8 J (21.9 – 137.0)"),
        (36.5, 137, "÷1.5 ×2.5", "54.8 J (36.5 – 137.0)"),
    ],
)
def test_intervals_are_readable(low, high, spread, text):
    energy = Energy(54.8, low, high, "predicted", "a test")
    assert (human_spread(energy), human_range(energy)) == (spread, text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (human_width(0.0), "± 0 %"),
        (human_width(math.log(1.12)), "± 12 %"),
        (human_width(math.log(1.99)), "± 99 %"),
        (human_width(math.log(2.0)), "within a factor 2"),
        (human_width(math.log(23.53)), "within a factor 24"),
        (human_error(0.818), "± 82 %"),
        (human_error(1.096), "from nothing to 2.1 times the value"),
    ],
)
def test_what_is_no_percentage_any_more_is_a_factor(words, text):
    assert words == text


def test_an_interval_is_in_the_unit_of_its_value():
    energy = Energy(0.5, 0.4, 2.0, "predicted", "a test")
    assert human_range(energy) == "500.0 mJ (400.0 – 2000.0)"


def test_what_no_child_carries_has_a_line():
    lines = view(tree_of_own().fold()).lines
    told = [(line.node.path, line.depth, line.rest, line.left_out) for line in lines]
    assert told == [
        ("", 0, False, 0),
        ("layer.0", 1, False, 0),
        ("layer.0.fc", 2, False, 0),
        ("layer.0", 2, True, 0),  # 1 J of 4
        ("head", 1, False, 0),
        # The model's own and the hidden view together are 1 %, not more: no line.
    ]


def test_a_hidden_view_is_in_the_rest_when_that_is_large():
    tree = tree_of_own()
    joules = tree.energy.joules.copy()
    joules[0] += 1
    energy = EnergyColumns(joules, joules, joules, tree.energy.source, "a test")
    chosen = view(tree.with_energy(energy).fold())
    rest = chosen.lines[-1]
    assert (rest.node.row, rest.rest, rest.left_out) == (0, True, 1)
    assert rest.weight == pytest.approx(1.1)
    assert chosen.left_out == 1
    assert chosen.left_out_share == pytest.approx(0.0025 / 11)


def test_an_op_of_next_to_nothing_is_left_out_and_a_weight_is_not():
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model", params=30)
    for name, params in (("mask", 0), ("head", 10), ("fc", 20)):
        builder.add(model, name, "ml", "Op", flops=100, params=params)
    joules = np.array([1.0, 1e-6, 1e-6, 0.999998])
    energy = EnergyColumns(joules, joules, joules, np.ones(4, np.uint8), "a test")
    tree = builder.build().with_energy(energy)
    assert [line.node.path for line in view(tree).lines] == ["", "head", "fc"]
    assert view(tree).left_out == 1
    assert len(view(tree, everything=True).lines) == 4


@given(trees(with_energy=True))
def test_lines_below_a_line_add_up_to_it(tree):
    lines = view(tree.fold()).lines
    for i, line in enumerate(lines):
        below = 0.0
        for other in lines[i + 1 :]:
            if other.depth <= line.depth:
                break
            below += other.weight if other.depth == line.depth + 1 else 0
        if below and not line.rest:
            assert below == pytest.approx(line.weight, rel=0.0101)


@given(trees())
def test_all_parts_together_are_the_model(tree):
    for key in ("flops", "bytes") if tree.energy is None else ("energy", "flops"):
        whole = {
            "energy": tree.total().energy_j,
            "flops": tree.total().flops,
            "bytes": tree.total().bytes,
        }[key]
        for depth in (None, 0, 1, 2):
            parts = largest_parts(tree.fold(), len(tree), key, depth)
            assert sum(part.weight for part in parts) == pytest.approx(whole)
            assert [p.weight for p in parts] == sorted(
                (p.weight for p in parts), reverse=True
            )


def test_parts_are_named_by_path():
    parts = largest_parts(tree_of_own().fold(), 3, "energy")
    told = [(ranged_path(p.node), p.weight, p.own) for p in parts]
    assert told == [
        ("layer.0…1.fc", pytest.approx(6.0), False),
        ("layer.0…1", pytest.approx(2.0), True),
        ("head", pytest.approx(1.9), False),
    ]


def test_unknown_energies_are_left_out_and_fold():
    tree = small_tree()
    joules = np.full(len(tree), np.nan)
    joules[0] = 5.0
    energy = EnergyColumns(
        joules, joules, joules, np.zeros(len(tree), np.uint8), "a test"
    )
    measured = tree.with_energy(energy)
    folded = measured.fold()
    assert len(folded) == len(tree.fold())
    assert folded.unfold() == measured
    assert [p.weight for p in largest_parts(folded, 9, "energy")] == [5.0]
    assert len(view(folded).lines) == len(folded) + 1  # all of the energy is its own


def test_energy_of_a_tree_without_is_refused():
    with pytest.raises(UsageError, match="carries no energy"):
        view(small_tree(), sort="energy")


@pytest.mark.parametrize(
    ("shape", "spec", "units"),
    [
        ((2, 5), RunSpec("m", batch_size=2, seq_len=5), ["sequence", "token"]),
        ((2, 1), RunSpec("m", 2, 5, phase="decode"), ["sequence", "token"]),
        ((2, 3, 8, 8), RunSpec("vit", batch_size=2, seq_len=5), ["input"]),
        ((2, 5), None, []),
    ],
)
def test_energy_per_token_only_where_there_are_tokens(shape, spec, units):
    builder = TreeBuilder()
    signature = Signature((shape,), (), "fp32")
    builder.add(-1, "", "model", "Model", flops=10**12, signature=signature)
    tree = with_made_up_energy(builder.build(spec=spec))
    rates = energy_per_unit(tree)
    assert [unit for unit, _ in rates] == units
    assert [j for _, j in rates] == pytest.approx(
        [20 / 2, 20 / spec.tokens][: len(units)] if spec else []
    )
    assert energy_per_unit(builder.build(spec=spec)) == []


def test_an_energy_says_where_it_is_from():
    said = energy_source(tree_of_own())
    assert said == "predicted for pc1 (a desk) · covers wall · by made-up rates 1"
    assert energy_source(small_tree()) == ""
