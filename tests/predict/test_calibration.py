"""A new machine from a known one: made-up machines, whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import irene
from irene.dataset import NodeTable, TreeKey
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.exams.evaluation import Evaluation, evaluate
from irene.predict.learning.join import Joiner
from irene.predict.learning.machine_calibration import ALONE, calibrate, rounds
from irene.predict.learning.scaling import (
    GROUPINGS,
    PARTS,
    fit_factors,
    parts_of,
    scaled,
)
from irene.predict.machines.finding import find_machine
from irene.predict.machines.predictor import Predictor
from irene.predict.machines.specs.kernels import Tiling
from irene.predict.machines.specs.specs_method import measurements
from irene.predict.machines.specs.specs_model import SpecsModel, fit_specs

LAB = Hardware("lab", "wall")
FASTER_OR_SLOWER = {
    "products": 1.4,
    "memory-bound kernels": 1.0,
    "elementwise": 0.8,
    "host": 1.2,
}
FACTORS = {part: FASTER_OR_SLOWER[name] for part, name in GROUPINGS["few"].items()}
LEVELS = ("ml", "module", "model")
ORDER = (4, 10, 1, 7, 2, 9, 0, 11)
"""Trees in the order in which they are measured: sizes and models mixed."""


@pytest.fixture(scope="module")
def source() -> Predictor:
    return find_machine("pc1")


@pytest.fixture(scope="module")
def target(source: Predictor, measure, made_up_keys: Sequence[TreeKey]) -> NodeTable:
    """Measured on a machine of other rates."""
    return measure(scaled(source.model, FACTORS), made_up_keys)


@pytest.fixture(scope="module")
def strange(source: Predictor, measure, made_up_keys: Sequence[TreeKey]) -> NodeTable:
    """Measured on a machine that also cuts its products into other tiles."""
    return measure(scaled(_other_tiles(source.model), FACTORS), made_up_keys)


def _other_tiles(model: SpecsModel) -> SpecsModel:
    groups = dict(model.groups)
    for name, tiling in (("gemm", Tiling(128, 128, 56)), ("bmm", Tiling(64, 64, 112))):
        rates = np.mean(groups[name].rates, axis=0) * (0.7, 0.9, 1.5)
        groups[name] = replace(
            groups[name], tilings=(tiling,), rates=(rates,), residual=None
        )
    return replace(model, groups=groups)


def split(table: NodeTable, count: int) -> tuple[NodeTable, NodeTable]:
    rest = [i for i in range(len(table.keys)) if i not in ORDER[:count]]
    return table.take(ORDER[:count]), table.take(rest)


Exam = tuple[Predictor, Evaluation]


def after(count: int, source: Predictor, table: NodeTable, joiner: Joiner) -> Exam:
    """The predictor after some trees, and how it does on the others."""
    measured, rest = split(table, count)
    predictor = calibrate(source, measured, LAB, {}, joiner)
    return predictor, evaluate(predictor, rest, joiner)


def error(found: Evaluation) -> float:
    """Mean error, %."""
    errors = found.node_weighted
    return float(np.mean([getattr(errors, level) for level in LEVELS]))


@pytest.fixture(scope="module")
def exams(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner
) -> dict[int, Exam]:
    """By the number of trees."""
    return {n: after(n, source, target, made_up_joiner) for n in (0, 1, 4, 8)}


# Factors


def test_factors_of_one_change_nothing(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner
) -> None:
    same = scaled(source.model, dict.fromkeys(PARTS, 1.0))
    assert same.to_dict() == source.model.to_dict()


def test_parts_add_up_to_the_whole(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner
) -> None:
    joined = made_up_joiner.join(target, 0)
    assert joined is not None
    whole = source.model.energies(joined.work)
    alone = [
        scaled(source.model, dict.fromkeys(PARTS, 0.0) | {part: 1.0})
        for part in PARTS
        if part != "host"
    ]
    gpu = sum(model.energies(joined.work).gpu for model in alone)
    np.testing.assert_allclose(gpu, whole.gpu, rtol=1e-9)


def test_factors_are_found_again(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner
) -> None:
    parts = parts_of(source.model, target, made_up_joiner)
    found = fit_factors(parts, GROUPINGS["few"])
    assert found == pytest.approx(FACTORS, rel=0.08)


def test_what_no_tree_tells_is_held_near_the_rest(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner
) -> None:
    parts = parts_of(source.model, target.take([0]), made_up_joiner)
    part_j = parts.part_j.copy()
    part_j[:, PARTS.index("softmax")] = 0.0
    found = fit_factors(replace(parts, part_j=part_j), GROUPINGS["many"])
    assert min(found.values()) <= found["softmax"] <= max(found.values())


# Exams


def keys(*sizes: tuple[int, int], model: str = "m") -> list[TreeKey]:
    return [TreeKey(model, *size) for size in sizes]


def test_sizes_are_held_out_together() -> None:
    several = keys((1, 8), (2, 8), (4, 8)) + keys((1, 8), model="n")
    split_name, groups = rounds(several, np.arange(4))
    assert split_name == "size"
    assert [group.tolist() for group in groups] == [[0, 3], [1], [2]]


def test_trees_are_held_out_where_sizes_are_few() -> None:
    assert rounds(keys((1, 8), (2, 8)), np.arange(2)).split == "tree"
    assert rounds(keys((1, 8)), np.arange(1)).groups == []


def test_there_are_not_more_than_eight_rounds() -> None:
    many = keys(*((batch, 8) for batch in range(1, 31)))
    groups = rounds(many, np.arange(30)).groups
    assert len(groups) == 8
    assert sorted(np.concatenate(groups).tolist()) == list(range(30))


# Calibration


def test_errors_fall_with_the_number_of_trees(exams: dict[int, Exam]) -> None:
    for count, (predictor, _) in exams.items():
        assert predictor.provenance["trees"] == count
    found = {count: error(exam) for count, (_, exam) in exams.items()}
    assert found[0] > 10
    assert found[1] <= 5
    assert found[4] <= max(found[1], 2)
    assert found[8] <= max(found[4], 1.5)


def test_a_machine_of_other_tiles_is_learned_from_its_own_trees(
    source: Predictor, strange: NodeTable, made_up_joiner: Joiner
) -> None:
    _, before = after(0, source, strange, made_up_joiner)
    predictor, exam = after(8, source, strange, made_up_joiner)
    told = predictor.provenance["errors_percent_by_choice"]
    assert set(told) == {*GROUPINGS, ALONE}
    best = min(told, key=lambda name: sum(told[name].values()))
    assert predictor.provenance["choice"] == best
    assert error(exam) < error(before) / 2


def test_without_trees_the_source_stands_in_and_says_so(source: Predictor) -> None:
    predictor = calibrate(source, None, LAB, {"data": None})
    tree = irene.trace("bert-l2-h768", batch_size=8, seq_len=128)
    guess, known = predictor.predict(tree), source.predict(tree)
    assert guess.total().energy_j == known.total().energy_j
    assert guess.root.energy.high == pytest.approx(3 * guess.root.energy.joules)
    assert any("nothing was measured on lab" in note for note in guess.notes)
    assert predictor.provenance["choice"] == "source"


def test_intervals_narrow_with_the_number_of_trees_and_hold(
    exams: dict[int, Exam],
) -> None:
    widths = []
    for predictor, exam in (exams[count] for count in (0, 1, 4)):
        widths.append(predictor.widths.inside["model"])
        coverage = exam.coverage
        assert min(coverage.ml, coverage.module, coverage.model) >= 0.9
    assert widths == sorted(widths, reverse=True)
    assert widths[2] < widths[0] / 5


def test_the_record_says_where_it_is_from(
    source: Predictor, target: NodeTable, made_up_joiner: Joiner, tmp_path
) -> None:
    measured, _ = split(target, 1)
    predictor = calibrate(source, measured, LAB, {"data": "x"}, made_up_joiner)
    told = predictor.provenance
    assert told["data"] == "x"
    assert told["calibrated_from"] == source.hardware.predictor
    assert (told["choice"], told["trees"]) == ("many", 1)
    assert told["factors"]["gemm"] == pytest.approx(1.4, rel=0.1)
    assert "one tree" in told["caveats"][0]
    predictor.save(tmp_path / "lab.json")
    again = find_machine(str(tmp_path / "lab.json"))
    assert again.provenance == dict(told)


def test_trees_of_unknown_models_are_refused(
    source: Predictor, target: NodeTable
) -> None:
    measured = replace(target.take([0]), keys=(TreeKey("unheard-of", 4, 64),))
    with pytest.raises(UsageError, match=r"no model of made-up has a config: unheard"):
        calibrate(source, measured, LAB, {}, Joiner())


def test_from_encoders_to_decoders_on_measured_data(
    source: Predictor, pc1: NodeTable
) -> None:
    joiner = Joiner()
    sizes = {(8, 64), (16, 128), (16, 192)}
    of = {
        model: pc1.take(
            [i for i, k in enumerate(pc1.keys) if k.model == model and k[1:] in sizes]
        )
        for model in ("bert-base-uncased", "distilgpt2")
    }
    encoders = fit_specs(measurements(of["bert-base-uncased"], joiner))
    learned = replace(source, model=encoders)
    decoders = of["distilgpt2"]
    predictor = calibrate(learned, decoders.take([1]), LAB, {}, joiner)
    errors = evaluate(predictor, decoders.take([0, 2]), joiner).node_weighted
    assert max(errors.ml, errors.module, errors.model) < 10
