"""Fit the estimates of a CPU's power and write `meters/estimate/estimate_model.json`.

Prints what is odd in the data, the forms that were tried, and the errors on processors
that were left out, beside CodeCarbon's formula. Numbers are written, no data.

    IRENE_DATA_DIR=… python -m scripts.fit_cpu_estimate
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu_estimate import (
    CODECARBON,
    WITH_CLOCK,
    WITHOUT,
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
from irene.meters.estimate.cpu_basis import LoadModel
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
    """Other forms of a · base + b · TDP · busy: errors left out, in %."""
    tdp, cores, load, clock, power, weight = np.array(
        [
            (r.cpu.tdp_w, r.cpu.cores, r.load, r.clock, r.power_w, w)
            for r, w in zip(rows, np.sqrt(row_weights(rows)), strict=True)
        ]
    ).T
    names = np.array([row.cpu.name for row in rows])
    bases = {"cores": cores, "TDP": tdp, "root of both": np.sqrt(tdp * cores)}
    busy = {"load": load, "1 − (1 − load)²": 1 - (1 - load) ** 2}
    print("base by, clock to the power of, busy: errors left out and their mean, %")
    for (name, by), exponent, (how, part) in itertools.product(
        bases.items(), (0, 1, 2), busy.items()
    ):
        terms = np.array([by * clock**exponent, tdp * part])
        errors = []
        for left_out in dict.fromkeys(names):
            rest, own = names != left_out, names == left_out

            def misses(logs: np.ndarray, rest: np.ndarray = rest) -> np.ndarray:
                return (np.log(np.exp(logs) @ terms / power) * weight)[rest]  # noqa: B023

            said = np.exp(least_squares(misses, [0.0, -1.0]).x) @ terms
            errors.append(100 * np.abs(said / power - 1)[own].mean())
        told = " ".join(f"{error:6.1f}" for error in [*errors, np.mean(errors)])
        print(f"{name:14} {exponent} {how:16} {told}")
    print()


def _left_out_numbers(results: Sequence[LeftOut], who: str) -> dict[str, Any]:
    return {
        left.name: {
            "ours": round(left.error(who), 1),
            "codecarbon_formula": round(left.error(CODECARBON), 1),
            "width_90": round(left.width(who), DIGITS),
        }
        for left in results
    }


def document(
    models: Mapping[str, LoadModel], results: Sequence[LeftOut]
) -> dict[str, Any]:
    """What is written."""
    formula = (
        "cores * (min(idle_w_per_core, idle_share_limit * tdp_w_per_core){} + "
        "active_share * tdp_w_per_core * load)"
    )
    return {
        "schema": "irene.cpu-estimate/3",
        "models": {
            name: {
                "formula": formula.format(how),
                "least": "squares of ln(said / measured), processors weigh the same",
                "numbers": asdict(models[who]),
                "left_out_mean_error_percent": _left_out_numbers(results, who),
            }
            for name, who, how in (
                ("with_clock", WITH_CLOCK, " * clock / highest clock"),
                ("without_clock", WITHOUT, ""),
            )
        },
        "provenance": {
            "data": "mlco2/codecarbon, data/hardware/cpu_load_profiling (MIT): RAPL "
            "energy over time of three processors at known loads",
            "rows": sum(len(left.rows) for left in results),
            "highest_clock": "the boost clock that AMD and Intel publish",
            "made_by": "python -m scripts.fit_cpu_estimate",
            "relative_error": "width_90 is what 90 % of the measurements of a left-out "
            "processor are within, as a share of the estimate: the largest but one, "
            "times 1.78, as much as Student's interval is wider for three",
        },
    }


def _rounded(model: LoadModel, error: float) -> LoadModel:
    found = asdict(replace(model, relative_error=error))
    numbers = {k: round(v, DIGITS) for k, v in found.items() if type(v) is float}
    return LoadModel(**{**found, **numbers})


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
    models = {
        who: _rounded(fit_load_model(rows, who == WITH_CLOCK), interval(results, who))
        for who in (WITH_CLOCK, WITHOUT)
    }
    print("", *models.values(), sep="\n")
    text = json.dumps(document(models, results), indent=2) + "\n"
    with whole_file(options.out) as file:
        file.write(text.encode())
    print(f"wrote {options.out.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
