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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
    codecarbon_formula,
    data_folder,
    fit_clock_model,
    fit_load_model,
    least_relative_error,
    leave_one_out,
    print_left_out,
    read_rows,
    row_weights,
)
from scipy.optimize import least_squares

from irene.errors import IreneError
from irene.meters.estimate.cpu_estimate import SCALE_W, ClockModel, LoadModel
from irene.whole_file import whole_file

METERS = Path(__file__).parents[1] / "src" / "irene" / "meters"
OUT = METERS / "estimate" / "estimate_model.json"
DIGITS = 3
SHOWN = 20
BASES = ("cores", "TDP", "both")
LOSSES = ("relative", "logarithm")


@dataclass(frozen=True, slots=True)
class Form:
    """A way to say it with two numbers: a · base + b · active.

    Attributes:
        base_by: Base power goes with the `cores`, the `TDP`, or the root of `both`.
        base_clock: And with the clock to this power.
        bend: Active power goes with the TDP and with 1 − (1 − load)^bend.
        active_clock: And with the clock to this power.
        loss: What is least: mean |said / measured − 1| (`relative`), or squares of
            ln(said / measured) (`logarithm`).
    """

    base_by: str
    base_clock: int
    bend: int
    active_clock: int
    loss: str

    def terms(self, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
        """Base and active of each row."""
        tdp = np.array([row.cpu.tdp_w for row in rows])
        cores = SCALE_W * np.array([row.cpu.cores for row in rows])
        load = np.array([row.load for row in rows])
        clock = np.array([row.clock for row in rows])
        base = {"cores": cores, "TDP": tdp, "both": np.sqrt(tdp * cores)}[self.base_by]
        active = tdp * (1 - (1 - load) ** self.bend)
        return base * clock**self.base_clock, active * clock**self.active_clock

    def fit(self, rows: Sequence[Row]) -> np.ndarray:
        """Its two numbers."""
        base, active = self.terms(rows)
        if self.loss == "relative":
            return least_relative_error(base, active, rows)
        measured = np.array([row.power_w for row in rows])
        weights = np.sqrt(row_weights(rows))

        def misses(logs: np.ndarray) -> np.ndarray:
            a, b = np.exp(logs)
            return np.log((a * base + b * active) / measured) * weights

        return np.exp(least_squares(misses, [-1.0, -1.0]).x)

    def left_out(self, rows: Sequence[Row]) -> list[LeftOut]:
        """Each processor, estimated from the others."""
        results = []
        for name in dict.fromkeys(row.cpu.name for row in rows):
            own = tuple(row for row in rows if row.cpu.name == name)
            a, b = self.fit([row for row in rows if row.cpu.name != name])
            base, active = self.terms(own)
            results.append(LeftOut(own, {WITH_CLOCK: a * base + b * active}))
        return results


CHOSEN = Form("both", base_clock=2, bend=1, active_clock=0, loss="relative")
FALLBACK = Form("cores", base_clock=0, bend=2, active_clock=0, loss="logarithm")


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


def print_forms(rows: Sequence[Row], shown: int) -> None:
    """The forms that were tried, the best first."""
    fields = itertools.product(BASES, (0, 1, 2), (1, 2, 3), (0, 1, 2), LOSSES)
    forms = {form: form.left_out(rows) for form in itertools.starmap(Form, fields)}
    ranked = sorted(forms, key=lambda form: mean_error(forms[form]))
    print(f"{len(forms)} forms of a · base + b · TDP · active; errors on processors")
    print("left out, in %, and the largest half-width of a 90 % interval")
    names = "".join(f" {_number_of(left):>8}" for left in forms[CHOSEN])
    print(f"base by × clock^  1−(1−load)^ × clock^  least      mean{names}  width")
    for rank, form in enumerate(ranked, start=1):
        if rank <= shown or form in (CHOSEN, FALLBACK):
            _print_form(form, forms[form], rank)
    print()
    _print_groups(forms)
    _print_unseen(forms, rows)


def _number_of(left: LeftOut) -> str:
    """The word of a processor's name that has the number."""
    return max(left.name.split(), key=lambda word: sum(map(str.isdigit, word)))


def mean_error(results: Sequence[LeftOut]) -> float:
    """Mean over the processors left out, %."""
    return float(np.mean([left.error(WITH_CLOCK) for left in results]))


def _print_form(form: Form, results: Sequence[LeftOut], rank: int) -> None:
    errors = "".join(f" {left.error(WITH_CLOCK):8.1f}" for left in results)
    width = max(left.width(WITH_CLOCK) for left in results)
    mark = {CHOSEN: " used with the clock", FALLBACK: " used without"}.get(form, "")
    print(
        f"{form.base_by:7} {form.base_clock:8}  {form.bend:11} {form.active_clock:8}"
        f"  {form.loss:9} {mean_error(results):5.1f}{errors} {width:6.2f}"
        f"  #{rank}{mark}"
    )


def _print_groups(forms: dict[Form, list[LeftOut]]) -> None:
    """Whether the clock of the base helps whatever the rest is."""
    theirs = [
        LeftOut(left.rows, {WITH_CLOCK: codecarbon_formula(left.rows)})
        for left in forms[CHOSEN]
    ]
    bars = [left.error(WITH_CLOCK) for left in theirs]
    print("all forms by the clock of their base   median error   median width"
          "   better than CodeCarbon: on the mean, on every processor")  # fmt: skip
    for power, loss in itertools.product((0, 1, 2), LOSSES):
        group = [
            results
            for form, results in forms.items()
            if (form.base_clock, form.loss) == (power, loss)
        ]
        means = [mean_error(results) for results in group]
        widths = [max(left.width(WITH_CLOCK) for left in r) for r in group]
        every = sum(
            all(x.error(WITH_CLOCK) < bar for x, bar in zip(r, bars, strict=True))
            for r in group
        )
        print(
            f"clock^{power}, least {loss:22} {np.median(means):13.1f} "
            f"{np.median(widths):14.2f}   "
            f"{sum(m < np.mean(bars) for m in means)}, {every} of {len(group)}"
        )
    print()


def _print_unseen(forms: dict[Form, list[LeftOut]], rows: Sequence[Row]) -> None:
    """What a choice of form is worth that has not seen the processor either."""
    print(
        "form chosen with two processors, each estimated from the other; its error on"
    )
    print("the third")
    errors = []
    for index, name in enumerate(left.name for left in forms[CHOSEN]):
        others = [row for row in rows if row.cpu.name != name]
        best = min(forms, key=lambda form: mean_error(form.left_out(others)))
        errors.append(forms[best][index].error(WITH_CLOCK))
        print(f"  {name:26} {errors[-1]:5.1f} %  {best}")
    print(f"  mean {np.mean(errors):27.1f} %\n")


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
    with_clock: ClockModel, without: LoadModel, results: Sequence[LeftOut]
) -> dict[str, Any]:
    """What is written."""
    return {
        "schema": "irene.cpu-estimate/2",
        "models": {
            "with_clock": {
                "formula": f"min(TDP, base_share * sqrt(TDP * {SCALE_W:g} W * cores) * "
                "(clock / highest clock)^2 + active_share * TDP * load)",
                "least": "mean over processors of the mean |said / measured - 1|",
                "numbers": asdict(with_clock),
                "left_out_mean_error_percent": _left_out_numbers(results, WITH_CLOCK),
            },
            "without_clock": {
                "formula": "cores * (min(idle_w_per_core, idle_share_limit * "
                "tdp_w_per_core) + active_share * tdp_w_per_core * (1 - (1 - load)^2))",
                "least": "squares of ln(said / measured), processors weigh the same",
                "numbers": asdict(without),
                "left_out_mean_error_percent": _left_out_numbers(results, WITHOUT),
            },
        },
        "provenance": {
            "data": "mlco2/codecarbon, data/hardware/cpu_load_profiling (MIT): RAPL "
            "energy over time of three processors at known loads",
            "rows": sum(len(left.rows) for left in results),
            "highest_clock": "the boost clock that AMD and Intel publish",
            "made_by": "python -m scripts.fit_cpu_estimate",
            "relative_error": "the largest width_90: what 90 % of the measurements of "
            "a left-out processor are within, as a share of the estimate",
        },
    }


def _rounded(model: Any, error: float) -> Any:
    whole = replace(model, relative_error=error)
    return replace(whole, **{k: round(v, DIGITS) for k, v in asdict(whole).items()})


def main() -> int:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--forms", type=int, default=SHOWN, help="how many to print")
    options = parser.parse_args()
    try:
        rows = read_rows(data_folder())
    except IreneError as error:
        print(error, file=sys.stderr)
        return 1
    print_oddities(rows)
    print_forms(rows, options.forms)
    results = leave_one_out(rows)
    print_left_out(results)
    with_clock, without = (
        _rounded(fit(rows), max(left.width(who) for left in results))
        for fit, who in ((fit_clock_model, WITH_CLOCK), (fit_load_model, WITHOUT))
    )
    print(f"\n{with_clock}\n{without}")
    text = json.dumps(document(with_clock, without, results), indent=2) + "\n"
    with whole_file(options.out) as file:
        file.write(text.encode())
    print(f"wrote {options.out.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
