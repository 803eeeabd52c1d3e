"""How often intervals hold: values, differences, and what was never measured.

Everything is held out: trees of PC1 by model and by family, servings by model family,
and a GPU together with the family. For every regime, the worst first: rows, part of
them inside the 90 % interval, what chance alone makes of intervals that are right,
whose errors are shared as the predictions say, and the median half-width in log units.
Then pairs that
differ in one thing: part of the measured ratios inside the interval of the ratio, its
width, that by the width of errors that share nothing (`square sum`), and what nine of
ten of them would need. What errors of two servings differ by (`APART`) is of pairs of
other families. Last, the exams that leave a cause out, from which the widths beyond the
measured are.

    IRENE_DATA_DIR=DATA python -m benchmarks.coverage [--only pc1 servings gpus causes]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from pathlib import Path

import numpy as np
from benchmarks.serving_calibration import (
    Exam,
    examined,
    examined_elsewhere,
    unserved_width,
)
from benchmarks.serving_calibration import widths_of as serving_widths
from benchmarks.servings import Runs, Serving, read_servings, served
from scipy.stats import norm

from irene.dataset import read_data
from irene.energy import Energy, SharedError, difference
from irene.predict.exams.crossvalidation import predict_round
from irene.predict.exams.splits import Split, by_family, by_model
from irene.predict.intervals import (
    COVERAGE,
    Widths,
    own_and_drift,
    widths_of,
)
from irene.predict.learning.training_runs import held_out
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import known_sheets
from irene.predict.machines.gpu.gpu_machine import GpuMachine
from irene.predict.machines.gpu.kernel_fitting import fit_time
from irene.predict.machines.gpu.kernel_models import LIKE
from irene.predict.machines.gpu.kernel_tables import (
    KernelTable,
    gpu_folders,
    read_tables,
)
from irene.predict.machines.gpu.run_likeness import APART
from irene.predict.machines.specs.kernels import PRODUCTS, KernelData, fit_kernels
from irene.predict.machines.specs.specs_method import (
    SHARED_JOINER,
    SpecsMethod,
    measurements,
)
from irene.predict.machines.specs.specs_model import FLOOR_LIMIT, kernel_data
from irene.tree import KINDS

GPUS = ("h100", "h200", "b200")
WIDE = 8
"""The largest sizes that are left out: within this factor of the largest."""
LEAST_ALIKE = 0.001
"""Correlation below which errors are as if they shared nothing."""
AIM = (0.85, 0.97)
"""What of a regime's rows should be inside."""
DRAWS = 4000
MANY = 10
"""Rows from which on a regime's coverage says something."""


@dataclass(frozen=True)
class Row:
    """A prediction of something measured.

    Attributes:
        regime: What it is counted under.
        settings: By name; a pair differs in some of them.
        energy: Predicted while its model or family was held out.
        measured_j: The truth, J.
        family: What is left out together with it.
        is_whole: Whether it is a whole run, of which is known what errors it shares.
    """

    regime: str
    settings: Mapping[str, object]
    energy: Energy
    measured_j: float
    family: str = ""
    is_whole: bool = True

    @property
    def is_inside(self) -> bool:
        """Whether the truth is in the interval."""
        return self.energy.low <= self.measured_j <= self.energy.high

    @property
    def width(self) -> float:
        """Half the interval, in log units."""
        return math.log(self.energy.high / self.energy.joules)


def told(joules: float, width: float, errors: Sequence[SharedError]) -> Energy:
    """An energy with an interval of this half-width in log units."""
    ends = joules * math.exp(-width), joules * math.exp(width)
    return Energy(joules, *ends, "predicted", "held out", tuple(errors))


def show_values(title: str, rows: Sequence[Row]) -> None:
    """Coverage and width by regime, the worst first; those of few rows at the end.

    Beside it, of whole runs, what chance alone makes of intervals that are right: nine
    of ten draws. A star is outside of that.
    """
    whole = [row for row in rows if row.is_whole]
    regimes = dict.fromkeys(row.regime for row in rows)
    by_chance = chances(whole)
    lines = []
    for name in [*regimes, "all"]:
        some = [row for row in rows if name in (row.regime, "all")]
        which = [name in (row.regime, "all") for row in whole]
        inside, band = np.mean([row.is_inside for row in some]), ""
        if sum(which) == len(some):
            low, high = np.quantile(by_chance[:, which].mean(axis=1), (0.05, 0.95))
            band = f"{low:4.0%} to {high:4.0%}" + " *"[not low <= inside <= high]
        few = " (few)" if len(some) < MANY else ""
        width = np.median([row.width for row in some])
        told = f"{name + few:44} {len(some):6} {inside:7.1%} {band:>15} ± {width:.3f}"
        lines.append((name == "all", bool(few), inside, told))
    print(f"\n{title:44} {'rows':>6} {'inside':>7} {'by chance':>14}  half-width")
    print(*(line[-1] for line in sorted(lines)), sep="\n")
    show_aim(whole, by_chance)


def show_aim(rows: Sequence[Row], by_chance: np.ndarray) -> None:
    """How often intervals that are right would hold what regimes should, and ours."""
    counts = Counter(row.regime for row in rows)
    names = [name for name, count in counts.items() if count >= MANY]
    which = np.array([[row.regime == name for row in rows] for name in names]).T
    alone = np.random.default_rng(1).random(by_chance.shape) < COVERAGE
    ours = np.array([[row.is_inside for row in rows]])
    for what, inside in (
        ("ours", ours), ("right by chance", by_chance),
        ("right, were no error shared", alone),
    ):  # fmt: skip
        found = inside.astype(int) @ which / which.sum(axis=0)
        held = (found >= AIM[0]) & (found <= AIM[1])
        print(f"{what}: {held.sum(axis=1).mean():.1f} of {len(names)} regimes hold "
              f"{AIM[0]:.0%} to {AIM[1]:.0%}, all do in {held.all(axis=1).mean():.1%}; "
              f"none under 80% in {(found >= 0.8).all(axis=1).mean():.0%}")  # fmt: skip


def chances(rows: Sequence[Row]) -> np.ndarray:
    """Draws of which rows are inside, were every interval right: draws by rows.

    Errors are normal, and shared between rows as their energies say.

    Args:
        rows: Whole runs.
    """
    widths = np.array([row.width for row in rows])
    alike = np.eye(len(rows))
    for (i, one), (j, other) in combinations(enumerate(rows), 2):
        alike[i, j] = alike[j, i] = _in_common(one, other) / (widths[i] * widths[j])
    sizes, axes = np.linalg.eigh(alike)
    root = axes * np.sqrt(np.maximum(sizes, 0.0))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    drawn = np.random.default_rng(0).standard_normal((DRAWS, len(rows))) @ root.T
    return np.abs(drawn) <= norm.ppf(0.5 + COVERAGE / 2)


def _in_common(one: Row, other: Row) -> float:
    """Covariance of two errors, in squares of half-widths."""
    theirs = {error.cause: error for error in other.energy.errors}
    return sum(
        mine.width * theirs[mine.cause].width * mine.likeness(theirs[mine.cause])
        for mine in one.energy.errors
        if mine.cause in theirs
    )


Pair = tuple[Row, Row]


def pairs_of(rows: Sequence[Row]) -> dict[str, list[Pair]]:
    """Pairs by the one thing in which they differ; sizes that are near also by that."""
    found: dict[str, list[Pair]] = {}
    for one, other in combinations(rows, 2):
        what = [n for n in one.settings if one.settings[n] != other.settings[n]]
        if len(what) == 1:
            found.setdefault(what[0], []).append((one, other))
            both = (each.settings[what[0]] for each in (one, other))
            sizes = [size for size in both if isinstance(size, int)]
            if len(sizes) == 2 and max(sizes) <= 2 * min(sizes):
                found.setdefault(f"{what[0]}, by 2 at most", []).append((one, other))
    return found


def show_pairs(
    rows: Sequence[Row], told_apart: Callable[[Pair], Pair] = lambda pair: pair
) -> None:
    """Coverage of ratios by what differs, and how wide they are, the worst first.

    Last what nine of ten of them need, by the square sum: no interval that is a part
    of it, the same for all pairs of a kind, can be narrower and hold. And what their
    errors have in common: of errors that are as large, with a correlation r, the ratio
    is √(1 − r) of the square sum. In how many the interval decides which takes more,
    and is wrong.

    Args:
        rows: What was predicted.
        told_apart: Makes what the errors of a pair differ by, without its families.
    """
    lines = []
    for name, pairs in pairs_of(rows).items():
        told_pairs = list(map(told_apart, pairs))
        offs, halves = np.array([off_and_half(*pair) for pair in told_pairs]).T
        logs = np.log([[(r.energy.joules, r.measured_j) for r in p] for p in pairs])
        said, truth = (logs[:, 1] - logs[:, 0]).T
        decided = np.abs(said) > halves
        wrong = decided & (said * truth < 0)
        square_sum = np.array([math.hypot(a.width, b.width) for a, b in told_pairs])
        common = 1 - (offs**2).sum() / (np.diff(logs)[:, :, 0] ** 2).sum()
        share = np.median(halves / square_sum)
        need = np.quantile(offs / square_sum, COVERAGE)
        line = f"± {np.median(halves):.3f}, {share:.2f} of the square sum, needed "
        line += f"{need:.2f}; correlation {common:.2f}; decided {decided.mean():.0%}, "
        line += f"of them {wrong.sum()} wrong"
        lines.append((np.mean(offs <= halves), name, len(pairs), line))
    print(f"\n{'pairs that differ in':44} {'rows':>6} {'inside':>7} half-width")
    for inside, name, count, line in sorted(lines):
        print(f"{name:44} {count:6} {inside:7.1%} {line}")


def off_and_half(one: Row, other: Row) -> tuple[float, float]:
    """Error of a ratio, and half its interval, in log units."""
    found = difference(one.energy, other.energy)
    assert found.ratio is not None
    assert found.ratio_high is not None
    truth = other.measured_j / one.measured_j
    off = abs(math.log(truth / found.ratio))
    return off, math.log(found.ratio_high / found.ratio)


# PC1 --------------------------------------------------------------------------


def pc1() -> None:
    """Every tree of PC1 from models, and from families, that are not its own."""
    for title, split in (("model left out", by_model), ("family left out", by_family)):
        rows = pc1_rows(split)
        show_values(f"pc1, {title}", rows)
        show_pairs([row for row in rows if row.regime.startswith("model ")])


def pc1_rows(split: Split) -> list[Row]:
    """Nodes with intervals of the errors of models of other folds."""
    table, _ = read_data("irene-pc1")
    held = []
    for fold in split(table):
        test = table.take(fold.test)
        found = predict_round(table, SpecsMethod(SHARED_JOINER), fold)
        for model in test.models:
            places = [i for i, key in enumerate(test.keys) if key.model == model]
            rows = np.isin(test.tree, places)
            held.append((fold.held_out, test.take(places), found.energy_j[rows]))
    rows = []
    for fold_name, test, energy_j in held:
        others = [
            held_out(its, said_j) for name, its, said_j in held if name != fold_name
        ]
        own, drift = own_and_drift(others)
        inside = widths_of(others)
        widths = Widths(inside, inside, own=own, drift=drift)
        for row, level in enumerate(KINDS[kind] for kind in test.kind):
            key = test.keys[test.tree[row]]
            settings = {"model": key.model, "batch": key.batch_size}
            # Numbers of two fits are not those of one machine.
            settings |= {"length": key.seq_len, "fit": fold_name}
            shared = widths.shared("pc1", key.batch_size * key.seq_len)
            energy = told(energy_j[row], inside[level], [shared])
            measured_j = float(test.energy_j[row])
            named, is_whole = f"{level} {key.model}", level == "model"
            rows.append(Row(named, settings, energy, measured_j, is_whole=is_whole))
    return rows


# Servings ---------------------------------------------------------------------


def serving_rows(exam: Exam, elsewhere: Exam | None = None) -> list[Row]:
    """Servings with intervals of the errors of other families.

    Args:
        exam: Predictions on left-out families.
        elsewhere: Those on left-out families and GPUs, to be asked for instead.
    """
    asked, machines = elsewhere or exam, {}
    for family in {each.family for each in exam.servings}:
        widths, widest = serving_widths(exam, but=(family,))
        unserved = unserved_width(exam, elsewhere, but=family) if elsewhere else 0.0
        for gpu in {each.gpu for each in exam.servings}:
            machine = find_gpu(gpu)
            known = replace(
                machine.calibration,
                energy_widths=widths,
                energy_width=widest,
                unserved=unserved,
            )
            machines[family, gpu] = GpuMachine(machine.device, known, machine.engine)
    rows = []
    for each, regime, joules in zip(
        asked.servings, asked.regimes, asked.j_per_token.tolist(), strict=True
    ):
        tree = each.tree()
        energy = machines[each.family, each.gpu].predict(tree).energy_of(0)
        assert energy is not None
        held = energy.scaled(joules / energy.joules)
        # One model whatever it was trained for or is stored in.
        settings = {"model": tree.root.params, **_settings(each)}
        named = f"{each.gpu} {regime}"
        rows.append(Row(named, settings, held, each.j_per_token, each.family))
    return rows


def _settings(each: Serving) -> dict[str, object]:
    return {
        "gpu": each.gpu, "task": each.task, "precision": each.precision,
        "GPUs": (each.gpus, each.expert_parallel), "batch": each.max_seqs,
    }  # fmt: skip


def measured_runs() -> dict[str, Runs]:
    """Every clean serving, by GPU."""
    path = Path(os.environ["IRENE_DATA_DIR"]) / "serving" / "mlenergy-v3-text.csv"
    return served([each for each in read_servings(path) if each.is_clean])


def servings() -> None:
    """Every clean serving from the families that are not its own."""
    rows = serving_rows(examined(measured_runs()))
    show_values("servings, family left out", rows)
    show_pairs(rows, told_by_others(pairs_of(rows)))
    every = apart_of(pairs_of(rows))
    print("apart:", ", ".join(f"{name} {every[name]:.4f}" for name in APART))


def told_by_others(groups: Mapping[str, Sequence[Pair]]) -> Callable[[Pair], Pair]:
    """What gives a pair the sizes that pairs of other families tell.

    Args:
        groups: Pairs by what they differ in.
    """

    @cache
    def without(families: frozenset[str]) -> Mapping[str, float]:
        return apart_of(groups, families)

    def told(pair: Pair) -> Pair:
        known = without(frozenset(row.family for row in pair))
        one, other = (_with_apart(row, known) for row in pair)
        return one, other

    return told


SETUPS = ("gpu", "GPUs", "precision")
"""Pairs that tell what two setups differ by."""


def apart_of(
    groups: Mapping[str, Sequence[Pair]], but: Iterable[str] = ()
) -> dict[str, float]:
    """What errors of two servings differ by, as `APART` has it.

    Each is the square with which nine of ten pairs that differ in that alone would be
    inside: batches first, then setups and models, beside what is known by then.

    Args:
        groups: Pairs by what they differ in.
        but: Families whose pairs do not count.
    """

    def nine_of_ten(names: Iterable[str], square: Callable[[Row, Row], float]) -> float:
        pairs = (pair for name in names for pair in groups.get(name, ()))
        kept = (p for p in pairs if not {row.family for row in p} & {*but})
        return float(np.quantile([square(*pair) for pair in kept], COVERAGE))

    def beside(a: Row, b: Row) -> float:
        return max(_square(a, b) - octave * _octaves(a, b), 0.0)

    octave = nine_of_ten(["batch"], lambda a, b: _square(a, b) / _octaves(a, b))
    setup = nine_of_ten(SETUPS, beside)
    sizes = dict.fromkeys(("batch", "prompt", "output"), octave)
    # Another model is another setup at least.
    model = max(nine_of_ten(["model"], beside), setup)
    return {"model": model, "setup": setup, **sizes}


def _octaves(one: Row, other: Row) -> float:
    """Octaves between the sizes of two servings."""
    here, there = (row.energy.errors[0].place for row in (one, other))
    sizes = ("batch", "prompt", "output")
    return sum(abs(here[name] - there[name]) / APART[name] for name in sizes)


def _square(one: Row, other: Row) -> float:
    """The square that holds a ratio, beside the causes that are no calibration's."""
    mine, theirs = (row.energy.errors[0] for row in (one, other))
    both, likeness = mine.width * theirs.width, mine.likeness(theirs)
    alone = mine.width**2 + theirs.width**2
    off, half = off_and_half(one, other)
    rest = half**2 - (alone - 2 * likeness * both)
    alike = (alone - max(off**2 - rest, 0.0)) / (2 * both)
    return -2 * both * math.log(min(max(alike, LEAST_ALIKE), 1.0))


def _with_apart(row: Row, apart: Mapping[str, float]) -> Row:
    """The row with other sizes of what errors of servings differ by."""
    first, *rest = row.energy.errors
    place = {}
    for axis, at in first.place.items():
        name = axis.partition(" ")[0]
        place[axis] = at * apart[name] / APART[name]
    errors = replace(first, place=place), *rest
    return replace(row, energy=replace(row.energy, errors=errors))


def gpus() -> None:
    """Servings of a GPU from other GPUs and other families alone."""
    runs = measured_runs()
    elsewhere = examined_elsewhere(runs)
    rows = serving_rows(examined(runs), elsewhere)
    show_values("servings, GPU and family left out", rows)


# Causes -----------------------------------------------------------------------


def causes() -> None:
    """Kernels without their smallest, their largest sizes, a precision, or a GPU."""
    show_elements()
    sheets = known_sheets()
    folders = gpu_folders(Path(os.environ["IRENE_DATA_DIR"]) / "gpu-ops")
    tables = {
        gpu: {table.ops.key: table for table in read_tables(folders[gpu])}
        for gpu in GPUS
    }
    for gpu, own in tables.items():
        for key, table in own.items():
            show_sizes(gpu, table, sheets[gpu])
            kind, _, dtype = key.partition("/")
            like = (f"{kind}/{d}" for d in LIKE.get(dtype, ()))
            stand_ins = [(gpu, each) for each in like if each in own][:1]
            stand_ins += [(g, key) for g in tables if g != gpu and key in tables[g]]
            for other, name in stand_ins:
                from_ = tables[other][name]
                model = fit_time(from_.ops, from_.time_s, sheets[other])
                said_s = model.seconds(table.ops, sheets[gpu])
                off = np.quantile(np.abs(np.log(said_s / table.time_s)), COVERAGE)
                print(f"{gpu} {key} by that of {other} {name}: {off:.2f}")


def show_elements() -> None:
    """PC1's kernels that are no products, the smallest and the largest from the rest.

    An octave, two and three are left out of every group; both ends count alike.
    """
    measured = measurements(read_data("irene-pc1")[0], SHARED_JOINER)
    off: dict[float, list[float]] = {-1.0: [], 1.0: []}
    for group, data in kernel_data(measured).items():
        sizes = np.log2([float(math.prod(kernel.sizes)) for kernel in data.kernels])
        for (end, found), left_out in product(off.items(), (1, 2, 3)):
            beyond = end * sizes - (end * sizes).max() + left_out
            out = beyond > 0
            if group in PRODUCTS or min(out.sum(), (~out).sum()) < 3:
                continue
            known = [
                k for k, is_out in zip(data.kernels, out, strict=True) if not is_out
            ]
            asked = [k for k, is_out in zip(data.kernels, out, strict=True) if is_out]
            limit_j = FLOOR_LIMIT * float(measured.kernel_j.min())
            rest = KernelData(tuple(known), data.energy_j[~out], data.repeats[~out])
            said_j, _ = fit_kernels(rest, limit_j)[0].predict(asked)
            octaves = end * sizes[out] - (end * sizes[~out]).max()
            error = np.abs(np.log(said_j / data.energy_j[out]))
            found += (error / np.maximum(octaves, 1.0)).tolist()
    for end, name in ((-1.0, "smallest"), (1.0, "largest")):
        print(f"pc1, {name} of kernels that are no products: "
              f"{np.quantile(off[end], COVERAGE):.3f} for an octave")  # fmt: skip
    # Nine of ten of both ends, where each counts half.
    every = sorted(off[-1.0] + off[1.0])
    inside = [np.mean([np.mean(np.array(o) <= v) for o in off.values()]) for v in every]
    both = every[int(np.argmax(np.array(inside) >= COVERAGE))]
    print(f"pc1, both ends alike: {both:.3f}")


def show_sizes(gpu: str, table: KernelTable, sheet: Datasheet) -> None:
    """The largest sizes of a table from the others."""
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
            f"{gpu} {table.ops.key} {name}: {np.quantile(each, COVERAGE):.3f} for an "
            "octave beyond the sizes that were left"
        )


PARTS = {"pc1": pc1, "servings": servings, "gpus": gpus, "causes": causes}


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
