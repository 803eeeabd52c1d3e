"""Budgets of a project: what its models may use, and what a change did to that.

Budgets are in `[tool.irene]` of pyproject.toml, or in irene.toml.
"""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from irene.analyse.comparison import Comparison, compare
from irene.analyse.parts import NUMBER, parts_of
from irene.analyse.project import files_of, predicted_in
from irene.errors import UsageError
from irene.parameters import Asked, read, written
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.tree.headline import energy_per_unit

SCHEMA = "irene.check/1"
FILES = ("irene.toml", "pyproject.toml")
LIMITS = ("max_j_per_token", "max_j_per_sequence", "max_change_percent")
EXAMPLE = '[[tool.irene.budget]] with model = "bert-base-uncased", max_j_per_token = 1'
LEAST_CHANGE = 1e-6
"""Change of the energy, by its size, that is too little to be told."""
NO_TOKENS = "it reads no tokens: give max_j_per_sequence in place of max_j_per_token"
ELSEWHERE = "elsewhere"
"""Stands for nodes that do the same work at another predicted energy."""


def _limit(metavar: str) -> Asked:
    return Asked(least=0, metavar=metavar)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a model may use at most, at one size on one machine.

    Attributes:
        on: Machine to predict for, or the file of a predictor.
        max_j_per_token: Most energy per token, J.
        max_j_per_sequence: Most energy per sequence (image, clip), J.
        max_change_percent: Most that it may rise against the base, %.
    """

    run: RunSpec = field(metadata={"required": ("model",)})
    on: str = "pc1"
    max_j_per_token: Annotated[float | None, _limit("J")] = None
    max_j_per_sequence: Annotated[float | None, _limit("J")] = None
    max_change_percent: Annotated[float | None, _limit("%")] = None

    @property
    def name(self) -> str:
        """The model, where and how it runs."""
        given = written(self.run) | {"on": self.on}
        model = given.pop("model")
        return f"{model} ({', '.join(f'{k}={v}' for k, v in given.items())})"


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one budget.

    Attributes:
        budget: The budget.
        j_per_token: Predicted energy per token, J; None if there is a problem, or the
            model reads no tokens.
        j_per_sequence: The same per sequence, J.
        comparison: Against the base; None without one.
        changes: Nodes that changed, with the difference of their energy per run, J.
        over: What is over budget, in words.
        problem: Why there is no prediction, "" if there is one.
        base_problem: Why there is none of the base.
    """

    budget: Budget
    j_per_token: float | None = None
    j_per_sequence: float | None = None
    comparison: Comparison | None = None
    changes: tuple[tuple[str, float], ...] = ()
    over: tuple[str, ...] = ()
    problem: str = ""
    base_problem: str = ""

    @property
    def change_percent(self) -> float | None:
        """How much it rose against the base, %."""
        ratio = self.comparison.ratio if self.comparison else None
        return None if ratio is None else 100 * (ratio - 1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        values = {k: getattr(self, k) for k in ("j_per_token", "j_per_sequence")}
        return {
            **written(self.budget),
            "on": self.budget.on,
            **values,
            "change_percent": self.change_percent,
            "changes": [{"node": n, "difference_j": d} for n, d in self.changes],
            "base": asdict(self.comparison.base) if self.comparison else None,
            "over": list(self.over),
            "problem": self.problem,
            "base_problem": self.base_problem,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """All budgets of a project, and the commit that was compared with, if any."""

    file: str
    base: str
    rows: tuple[Checked, ...]
    note: str = ""

    @property
    def exit_code(self) -> int:
        """0 within all budgets, 1 over one, 2 where one could not be predicted."""
        if any(row.problem for row in self.rows):
            return 2
        return int(any(row.over for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.check/1` as JSON-ready values."""
        rows = [row.to_dict() for row in self.rows]
        return {
            "schema": SCHEMA, "file": self.file, "base": self.base,
            "ok": self.exit_code == 0, "budgets": rows, "note": self.note,
        }  # fmt: skip


# What is asked ----------------------------------------------------------------


def read_budgets(folder: Path) -> tuple[Path, list[Budget]]:
    """The budgets of the project that a folder is in, and the file that has them."""
    for place in (folder, *folder.parents):
        for name in FILES:
            table = _table(place / name)
            if table is not None:
                return place / name, _budgets(place / name, table)
        if (place / ".git").exists():
            break
    raise UsageError(f"no budget in {' or '.join(FILES)} from {folder} up: {EXAMPLE}")


def _unread(file: Path) -> str:
    """Says so where a second file beside this one has budgets, too."""
    later = FILES[FILES.index(file.name) + 1 :]
    others = [name for name in later if _table(file.with_name(name)) is not None]
    return f"{file.name} is read, {others[0]} beside it is not" if others else ""


def _table(file: Path) -> Mapping[str, Any] | None:
    if not file.is_file():
        return None
    try:
        found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    if file.name == "pyproject.toml":
        found = found.get("tool", {}).get("irene")
    return found if isinstance(found, Mapping) else None


def _budgets(file: Path, table: Mapping[str, Any]) -> list[Budget]:
    usual = {k: v for k, v in table.items() if k != "budget"}
    listed = table.get("budget")
    if not isinstance(listed, list) or not listed:
        of_pyproject = "" if file.name == FILES[0] else "tool.irene."
        words = EXAMPLE.replace("tool.irene.", of_pyproject)
        raise UsageError(f"{file} has no budget: write {words}")
    found = []
    for number, each in enumerate(listed, 1):
        try:
            if not isinstance(each, Mapping):
                raise UsageError(f"{each!r} is no table")
            found += [read(Budget, one) for one in _combinations({**usual, **each})]
        except UsageError as error:
            raise type(error)(f"budget {number} of {file}: {error}") from error
    for budget in found:
        if all(getattr(budget, name) is None for name in LIMITS):
            raise UsageError(
                f"{file}: the budget of {budget.name} limits nothing: give "
                f"{', '.join(LIMITS[:-1])} or {LIMITS[-1]}"
            )
    return found


def _combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One budget for every combination of what is listed."""
    several = {k: v if isinstance(v, list) else [v] for k, v in values.items()}
    for name, listed in several.items():
        if not listed:
            raise UsageError(f"{name} is an empty list")
    for chosen in itertools.product(*several.values()):
        yield dict(zip(several, chosen, strict=True))


# What is answered -------------------------------------------------------------


def check(
    folder: Path,
    base: str = "",
    *,
    only: Sequence[str] = (),
    timeout_s: float = 600.0,
) -> Check:
    """Predict all models of a project, and what a change of it did.

    Args:
        folder: In the project.
        base: Commit, branch or tag to compare with, "" for none.
        only: Models to check; none: all.
        timeout_s: Most time for one model, s.

    Raises:
        UsageError: There are no budgets, or git knows no such commit.
    """
    file, budgets = read_budgets(folder)
    unknown = set(only) - {budget.run.model for budget in budgets}
    if unknown:
        raise UsageError(f"{file} has no budget of {', '.join(sorted(unknown))}")
    budgets = [b for b in budgets if not only or b.run.model in only]
    runs, note = [(budget.run, budget.on) for budget in budgets], _unread(file)
    if not base:
        now = predicted_in(file.parent, runs, timeout_s)
        return Check(str(file), "", tuple(map(judged, budgets, now)), note)
    with files_of(file.parent, base) as there:
        now = predicted_in(file.parent, runs, timeout_s)
        before = predicted_in(there, runs, timeout_s)
    return Check(str(file), base, tuple(map(judged, budgets, now, before)), note)


def judged(
    budget: Budget, found: ModelTree | str, base: ModelTree | str | None = None
) -> Checked:
    """What becomes of a budget."""
    if isinstance(found, str):
        return Checked(budget, problem=found)
    each_j, *tokens_j = (joules for _, joules in energy_per_unit(found))
    values = (tokens_j[0] if tokens_j else None, each_j)
    if not tokens_j and budget.max_j_per_token is not None:
        return Checked(budget, *values, problem=NO_TOKENS)
    row = Checked(budget, *values, base_problem=base if isinstance(base, str) else "")
    if isinstance(base, ModelTree):
        compared = compare(base, found)
        row = replace(row, comparison=compared, changes=_changes(base, found, compared))
    amounts = (*values, row.change_percent)
    units = ("J per token", "J per sequence", "% against the base")
    limits = (getattr(budget, name) for name in LIMITS)
    over = [
        f"{amount:.4g} {unit}, allowed are {limit:g}"
        for amount, limit, unit in zip(amounts, limits, units, strict=True)
        if limit is not None and amount is not None and amount > limit
    ]
    return replace(row, over=tuple(over))


def _changes(
    base: ModelTree, now: ModelTree, compared: Comparison
) -> tuple[tuple[str, float], ...]:
    """Nodes that do other work than in the base, the largest difference first.

    One that only one side has is told as a whole, without the nodes below it.
    Where one node changes, a predictor may give another energy to those around it:
    that is no change of theirs, and listed as `ELSEWHERE`.
    """
    sides = [_by_path(tree) for tree in (base, now)]
    there = [{node for path in side for node in _down_to(path)} for side in sides]
    alike = Counter(NUMBER.sub("*", node) for node in there[0] | there[1])
    changed: dict[str, float] = {}
    for path in dict.fromkeys([*sides[0], *sides[1]]):
        (works, base_j), (others, now_j) = (s.get(path, ([], 0.0)) for s in sides)
        if works != others:
            alone = (n for n in _down_to(path) if n not in there[0] & there[1])
            node = next(alone, path)
            changed[node] = changed.get(node, 0.0) + now_j - base_j
    rows: dict[str, list[tuple[str, float]]] = {}
    for node, joules in changed.items():
        rows.setdefault(NUMBER.sub("*", node), []).append((node, joules))
    if not rows:
        same = compared.differences("path")
        return tuple((row.name, row.difference_j) for row in same)
    found: list[tuple[str, float]] = []
    for name, each in rows.items():
        everywhere = len(each) == alike[name] > 1 and name != "*"
        found += [(name, sum(j for _, j in each))] if everywhere else each
    least_j = LEAST_CHANGE * abs(compared.base.energy_j)
    found = [row for row in found if abs(row[1]) > least_j]
    found.sort(key=lambda row: -abs(row[1]))
    rest_j = compared.difference_j - sum(j for _, j in found)
    return (*found, *[(ELSEWHERE, rest_j)] * (abs(rest_j) > least_j))


def _down_to(path: str) -> Iterator[str]:
    """The nodes from the outermost to a path."""
    return itertools.accumulate(path.split("."), "{}.{}".format)


def _by_path(tree: ModelTree) -> dict[str, tuple[list[object], float]]:
    """What every path does, call by call, and its energy, J."""
    found: dict[str, tuple[list[object], float]] = {}
    for part in parts_of(tree):
        works, joules = found.get(part.path, ([], 0.0))
        work = (part.work, part.flops, part.bytes)
        found[part.path] = ([*works, work], joules + part.energy_j)
    return found
