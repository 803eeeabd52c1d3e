"""How often intervals hold: values, differences, and what was never measured.

Everything is held out: trees of PC1 by model, servings by model family. For every
regime: rows, part of them inside the 90 % interval, its median half-width. Then pairs
that differ in one thing: part of the measured ratios inside the interval of the ratio,
its width, and that by the width of errors that share nothing (`square sum`). Last, the
exams that leave a cause out, from which the widths beyond the measured are.

    IRENE_DATA_DIR=DATA python -m benchmarks.coverage [--only pc1 servings causes]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from benchmarks.serving_calibration import Exam, examined
from benchmarks.serving_calibration import widths_of as serving_widths
from benchmarks.servings import Serving, read_servings, served

from irene.dataset import read_data
from irene.energy import Energy, SharedError, difference
from irene.predict.exams.crossvalidation import predict_round
from irene.predict.exams.splits import by_model
from irene.predict.intervals import (
    LEVELS,
    covering_error,
    group_width,
    log_errors,
    own_width,
)
from irene.predict.machines.gpu.doubts import serving_error
from irene.predict.machines.gpu.gpu_device import known_sheets
from irene.predict.machines.gpu.kernel_fitting import fit_time
from irene.predict.machines.gpu.kernel_models import LIKE
from irene.predict.machines.gpu.kernel_tables import gpu_folders, read_tables
from irene.predict.machines.gpu.serving_calibration import Calibration
from irene.predict.machines.specs.specs_method import SHARED_JOINER, SpecsMethod

GPUS = ("h100", "h200", "b200")
WIDE = 8
"""The largest sizes that are left out: within this factor of the largest."""


@dataclass(frozen=True)
class Row:
    """A prediction of something measured.

    Attributes:
        regime: What it is counted under.
        settings: By name; a pair differs in some of them.
        energy: Predicted while its model or family was held out.
        measured_j: The truth, J.
    """

    regime: str
    settings: Mapping[str, object]
    energy: Energy
    measured_j: float

    @property
    def is_inside(self) -> bool:
        """Whether the truth is in the interval."""
        return self.energy.low <= self.measured_j <= self.energy.high


def told(joules: float, width: float, errors: Sequence[SharedError]) -> Energy:
    """An energy with an interval of this half-width in log units."""
    ends = joules * math.exp(-width), joules * math.exp(width)
    return Energy(joules, *ends, "predicted", "held out", tuple(errors))


def show_values(rows: Iterable[Row]) -> None:
    """Coverage and width by regime."""
    regimes: dict[str, list[Row]] = {}
    for row in rows:
        regimes.setdefault(row.regime, []).append(row)
    for name, some in sorted(regimes.items()):
        inside = np.mean([row.is_inside for row in some])
        widths = [math.log(row.energy.high / row.energy.joules) for row in some]
        few = "" if len(some) >= 10 else " (few)"
        print(f"{name + few:44} {len(some):6} {inside:6.1%} ± {np.median(widths):.3f}")


def show_pairs(rows: Sequence[Row]) -> None:
    """Coverage of ratios by what differs, and how wide they are."""
    pairs: dict[str, list[tuple[bool, float, float]]] = {}
    for one, other in combinations(rows, 2):
        what = [n for n in one.settings if one.settings[n] != other.settings[n]]
        if len(what) != 1:
            continue
        found = difference(one.energy, other.energy)
        assert found.ratio is not None
        assert found.ratio_low is not None
        assert found.ratio_high is not None
        truth = other.measured_j / one.measured_j
        half = math.log(found.ratio_high / found.ratio)
        both = (math.log(r.energy.high / r.energy.joules) for r in (one, other))
        is_inside = found.ratio_low <= truth <= found.ratio_high
        pairs.setdefault(what[0], []).append((is_inside, half, math.hypot(*both)))
    for name, some in sorted(pairs.items()):
        inside, half, square_sum = np.array(some, dtype=float).T
        print(
            f"pairs that differ in {name:22} {len(some):6} {inside.mean():6.1%} "
            f"± {np.median(half):.3f}, {np.median(half / square_sum):.2f} of square sum"
        )


def pc1() -> None:
    """Every tree of PC1 from the models that are not its own."""
    table, _ = read_data("irene-pc1")
    held = []
    for fold in by_model(table):
        found = predict_round(table, SpecsMethod(SHARED_JOINER), fold)
        held.append((fold.held_out, table.take(fold.test), found.energy_j))
    errors = [log_errors(energy_j, test.energy_j) for _, test, energy_j in held]
    by_level = [
        {level: error[test.rows(level)] for level in LEVELS}
        for error, (_, test, _) in zip(errors, held, strict=True)
    ]
    roots: list[Row] = []
    for place, (model, test, energy_j) in enumerate(held):
        others = by_level[:place] + by_level[place + 1 :]
        own = own_width(others) or 0.0
        rows = []
        for level in LEVELS:
            width = group_width([covering_error(each[level]) for each in others])
            shared = math.sqrt(max(width**2 - own**2, 0.0))
            for row in test.rows(level):
                key = test.keys[test.tree[row]]
                settings = dict(zip(("model", "batch", "length"), key, strict=True))
                energy = told(energy_j[row], width, [SharedError("pc1", shared)])
                name = f"pc1 {level} {model}"
                rows.append(Row(name, settings, energy, float(test.energy_j[row])))
        show_values(rows)
        roots += [row for row in rows if row.regime.startswith("pc1 model ")]
    show_pairs(roots)


def serving_rows(exam: Exam) -> list[Row]:
    """Servings with intervals of the errors of other families."""
    calibrations = {}
    for family in {each.family for each in exam.servings}:
        widths, widest = serving_widths(exam, but=family)
        known = Calibration(energy_widths=widths, energy_width=widest)
        calibrations[family] = known
    rows = []
    for each, regime, joules in zip(
        exam.servings, exam.regimes, exam.j_per_token.tolist(), strict=True
    ):
        width = calibrations[each.family].width(regime)
        error = serving_error(each.tree(), each.gpu, width)
        energy = told(joules, width, [error])
        name = f"{each.gpu} {regime}"
        rows.append(Row(name, _settings(each), energy, each.j_per_token))
    return rows


def _settings(each: Serving) -> dict[str, object]:
    return {
        "model": each.model.removesuffix("-FP8"), "gpu": each.gpu, "task": each.task,
        "precision": each.precision, "GPUs": (each.gpus, each.expert_parallel),
        "batch": each.max_seqs,
    }  # fmt: skip


def servings() -> None:
    """Every clean serving from the families that are not its own."""
    path = Path(os.environ["IRENE_DATA_DIR"]) / "serving" / "mlenergy-v3-text.csv"
    rows = serving_rows(
        examined(served([each for each in read_servings(path) if each.is_clean]))
    )
    show_values(rows)
    show_pairs(rows)


def causes() -> None:
    """Tables of kernels without their largest sizes, and without a precision."""
    sheets = known_sheets()
    folders = gpu_folders(Path(os.environ["IRENE_DATA_DIR"]) / "gpu-ops")
    for gpu in GPUS:
        sheet = sheets[gpu]
        tables = {table.ops.key: table for table in read_tables(folders[gpu])}
        for key, table in tables.items():
            for name, values in table.ops.columns.items():
                top = values.max() / WIDE
                out = values > top
                if out.sum() < 20 or (~out).sum() < 100 or top < 4:
                    continue
                model = fit_time(table.ops.at(~out), table.time_s[~out], sheet)
                seconds = model.seconds(table.ops.at(out), sheet)
                off = np.abs(np.log(seconds / table.time_s[out]))
                each = off / np.maximum(np.log2(values[out] / top), 1.0)
                print(
                    f"{gpu} {key} {name}: {np.quantile(each, 0.9):.3f} for an octave "
                    "beyond the sizes that were left"
                )
            kind, _, dtype = key.partition("/")
            like = next((d for d in LIKE.get(dtype, ()) if f"{kind}/{d}" in tables), "")
            if like:
                other = tables[f"{kind}/{like}"]
                model = fit_time(other.ops, other.time_s, sheet)
                off = np.abs(np.log(model.seconds(table.ops, sheet) / table.time_s))
                print(f"{gpu} {key} by {like}: {np.quantile(off, 0.9):.2f}")


PARTS = {"pc1": pc1, "servings": servings, "causes": causes}


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    options = parser.parse_args()
    if not os.environ.get("IRENE_DATA_DIR"):
        print("needs IRENE_DATA_DIR", file=sys.stderr)
        return 0
    for name in options.only:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
