"""A second machine from ONE measured tree: how many factors to give it.

No second machine was measured in full, so machines are made of PC1's: its rates times
factors, all alike, alike within the four sets of `few`, or each its own; every measured
node keeps its distance from what the rates say, and gets noise of the meter. The known
machine is learned from the other family of models. Each candidate is calibrated on one
tree and predicts all others: mean errors at the ml, module and model level in percent,
and those of the worst tree to calibrate on.

    IRENE_DATA_DIR=… python -m benchmarks.second_machine [--machines 2] [--trees 5]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from irene.dataset import NodeTable, read_data
from irene.predict.exams.splits import by_family
from irene.predict.intervals import LEVELS
from irene.predict.learning.machine_calibration import Target
from irene.predict.learning.scaling import GROUPINGS, PARTS, scaled
from irene.predict.machines.specs.regression import NOISE
from irene.predict.machines.specs.specs_method import (
    SHARED_JOINER,
    measured_rows_j,
    measurements,
)
from irene.predict.machines.specs.specs_model import SpecsModel, fit_specs

COMMON, APART = 0.7, 0.3
"""Standard deviations of the logarithms of a machine's and of a kind's factor."""


def learned(table: NodeTable) -> SpecsModel:
    """A machine from measured trees."""
    return fit_specs(measurements(table, SHARED_JOINER))


def made_machine(
    table: NodeTable, model: SpecsModel, how: str, rng: np.random.Generator
) -> NodeTable:
    """The same trees on a machine of other rates.

    Args:
        table: As measured.
        model: Learned from it.
        how: A key of `GROUPINGS`: which kinds of work share a factor.
        rng: Draws factors and noise.
    """
    names = sorted(set(GROUPINGS[how].values()))
    draws = {n: rng.normal(0.0, APART) if how != "one" else 0.0 for n in names}
    common = rng.normal(0.0, COMMON)
    factors = {p: float(np.exp(common + draws[GROUPINGS[how][p]])) for p in PARTS}
    other, usual = (
        measured_rows_j(each, table, SHARED_JOINER)
        for each in (scaled(model, factors), model)
    )
    noise = np.exp(rng.normal(0.0, NOISE, len(table)))
    made_j = table.energy_j * np.nan_to_num(other / usual, nan=np.exp(common)) * noise
    return replace(table, energy_j=made_j)


def main() -> None:
    """Make machines, calibrate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=2, help="of each kind")
    parser.add_argument("--trees", type=int, default=5, help="to calibrate on, each")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    table, _ = read_data("irene-pc1")
    found: dict[tuple[str, str], list[list[float]]] = {}
    for fold in by_family(table):
        known, test = learned(table.take(fold.train)), table.take(fold.test)
        own = learned(test)
        for how in [*GROUPINGS] * options.machines:
            target = Target.of(known, made_machine(test, own, how, rng), SHARED_JOINER)
            for one in rng.choice(target.trees, options.trees, replace=False):
                rest = np.setdiff1d(target.trees, [one])
                for name in GROUPINGS:
                    errors = target.errors(target.fit(name, np.array([one])), rest)
                    each = [np.nanmean(np.abs(np.expm1(errors[k]))) for k in LEVELS]
                    found.setdefault((how, name), []).append(each)
    print(f"{'factors of the machine':24}{'of the candidate':20} mean, worst tree, %")
    for (how, name), errors in found.items():
        mean, worst = (100 * f(errors, axis=0) for f in (np.mean, np.max))
        cells = "   ".join(" ".join(f"{v:5.1f}" for v in row) for row in (mean, worst))
        print(f"{how:24}{name:20} {cells}")


if __name__ == "__main__":
    main()
