"""Fit the estimate of a CPU's power and write `meters/estimate/estimate_model.json`.

Prints what is odd in the data, the forms that were tried, what choosing among them is
worth, and the errors on processors that were left out, beside CodeCarbon's formula.
Numbers are written, no data.

    IRENE_DATA_DIR=… python -m scripts.fit_cpu_estimate
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu_estimate import (
    CODECARBON,
    OURS,
    LeftOut,
    Row,
    data_folder,
    fit_load_model,
    interval,
    leave_one_out,
    print_left_out,
    read_rows,
    row_weights,
)
from scipy.optimize import least_squares

from irene.errors import IreneError
from irene.meters.estimate.cpu_estimate import LoadModel
from irene.whole_file import whole_file

METERS = Path(__file__).parents[1] / "src" / "irene" / "meters"
OUT = METERS / "estimate" / "estimate_model.json"
DIGITS = 3


def print_oddities(rows: Sequence[Row]) -> None:
    """Show that the column `rapl_power` is one row late."""
    pairs = [
        (before, row)
        for before, row in pairwise(rows)
        if (before.cpu, before.kind) == (row.cpu, row.kind)
    ]
    late = [abs(row.column_w / before.power_w - 1) for before, row in pairs]
    same = [abs(row.column_w / row.power_w - 1) for _, row in pairs]
    print(f"{len(rows)} rows. The column rapl_power differs from energy over time")
    print(f"  of its own row by {100 * np.median(same):5.2f} % (median)")
    print(f"  of the row before by {100 * np.median(late):5.2f} % (median)")
    first = [row for row in rows if row.column_w < 2]
    print(f"  and is near nothing in {len(first)} rows, the first of each file")
    print("so it is late, and energy over time is used instead, of all rows\n")


def print_forms(rows: Sequence[Row]) -> None:
    """Other forms of a · base + b · TDP · busy: errors left out, in %.

    Then what choosing is worth: for every processor, the form that does best on the
    other two, each from the other.
    """
    forms = {
        (name, exponent, how): (by, exponent, part)
        for (name, by), exponent, (how, part) in itertools.product(
            BASES.items(), (0, 1, 2), BUSY.items()
        )
    }
    every = {key: _left_out_errors(rows, *form) for key, form in forms.items()}
    print("base by, clock to the power of, busy: errors left out and their mean, %")
    for (name, exponent, how), errors in every.items():
        told = " ".join(f"{e:6.1f}" for e in [*errors.values(), _mean(errors)])
        print(f"{name:14} {exponent} {how:16} {told}")
    print("chosen by the other two, each from the other: error left out, %")
    found = []
    for left_out in dict.fromkeys(row.cpu.name for row in rows):
        rest = [row for row in rows if row.cpu.name != left_out]
        inner = {k: _mean(_left_out_errors(rest, *form)) for k, form in forms.items()}
        best = min(inner, key=lambda key: inner[key])
        found.append(every[best][left_out])
        print(f"{left_out:26} {best} {found[-1]:6.1f}")
    print(f"{'mean':26} {np.mean(found):.1f}\n")


BASES = {
    "cores": lambda row: row.cpu.cores,
    "TDP": lambda row: row.cpu.tdp_w,
    "root of both": lambda row: math.sqrt(row.cpu.tdp_w * row.cpu.cores),
}
BUSY = {
    "load": lambda row: row.load,
    "1 − (1 − load)²": lambda row: 1 - (1 - row.load) ** 2,
}


def _mean(errors: dict[str, float]) -> float:
    return float(np.mean(list(errors.values())))


def _left_out_errors(
    rows: Sequence[Row],
    base: Callable[[Row], float],
    exponent: int,
    busy: Callable[[Row], float],
) -> dict[str, float]:
    """Error of a form on every processor, by what the others tell, in %."""
    terms = np.array(
        [(base(r) * r.clock**exponent, r.cpu.tdp_w * busy(r)) for r in rows]
    ).T
    power, weight = np.array([r.power_w for r in rows]), np.sqrt(row_weights(rows))
    names = np.array([row.cpu.name for row in rows])
    errors = {}
    for left_out in dict.fromkeys(names.tolist()):
        rest, own = names != left_out, names == left_out

        def misses(logs: np.ndarray, rest: np.ndarray = rest) -> np.ndarray:
            return (np.log(np.exp(logs) @ terms / power) * weight)[rest]

        said = np.exp(least_squares(misses, [0.0, -1.0]).x) @ terms
        errors[left_out] = float(100 * np.abs(said / power - 1)[own].mean())
    return errors


def document(model: LoadModel, results: Sequence[LeftOut]) -> dict[str, Any]:
    """What is written."""
    return {
        "schema": "irene.cpu-estimate/4",
        "formula": "cores * (min(idle_w_per_core, idle_share_limit * tdp_w_per_core) + "
        "active_share * tdp_w_per_core * load)",
        "least": "squares of ln(said / measured), processors weigh the same",
        "numbers": asdict(model),
        "left_out_mean_error_percent": {
            left.name: {
                "ours": round(left.error(OURS), 1),
                "codecarbon_formula": round(left.error(CODECARBON), 1),
                "width_90": round(left.width(OURS), DIGITS),
            }
            for left in results
        },
        "provenance": {
            "data": "mlco2/codecarbon, data/hardware/cpu_load_profiling (MIT): RAPL "
            "energy over time of three processors at known loads",
            "rows": sum(len(left.rows) for left in results),
            "made_by": "python -m scripts.fit_cpu_estimate",
            "relative_error": "width_90 is what 90 % of the measurements of a left-out "
            "processor are within, as a share of the estimate: the largest of three",
        },
    }


def main() -> int:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    try:
        rows = read_rows(data_folder())
    except IreneError as error:
        print(error, file=sys.stderr)
        return 1
    print_oddities(rows)
    print_forms(rows)
    results = leave_one_out(rows)
    print_left_out(results)
    found = asdict(
        replace(fit_load_model(rows), relative_error=interval(results, OURS))
    )
    model = LoadModel(**{name: round(value, DIGITS) for name, value in found.items()})
    print("", model, sep="\n")
    text = json.dumps(document(model, results), indent=2) + "\n"
    with whole_file(options.out) as file:
        file.write(text.encode())
    print(f"wrote {options.out.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
