"""Sweep: which runs are wanted, how they are measured, and where; from a YAML file.

The file is of a strict schema; errors name the line and what to write.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

from irene.collect.located import Located, read_located
from irene.errors import SpecError, UsageError
from irene.measure.protocol import DEFAULT, PAPER, QUICK, MeasureProtocol
from irene.parameters import parameters_of
from irene.spec import RunSpec
from irene.work.engines import EngineKind, EngineSettings
from irene.work.engines.ray_engine import RaySettings
from irene.work.engines.slurm_engine import SlurmSettings

SCHEMA = "irene.sweep/1"
MOST_POINTS = 100_000
KINDS = {"quick": QUICK, "full": DEFAULT, "paper": PAPER}
WHERE = "engine"
"""In a sweep this is where its runs take place, and not what serves them."""
USUAL = {
    each.name: each.asked.usual for each in parameters_of(RunSpec) if each.name != WHERE
}
"""What a run has where nobody says otherwise."""
AXES = tuple(USUAL)
"""What a sweep can vary: everything that can be asked of a run."""
OTHERS = ("schema", "machine", "include", "exclude", "protocol", "engine")
RANGE = ("from", "to", "by")
PLURALS = {
    "models": "model", "batch_sizes": "batch_size", "lengths": "seq_len",
    "length": "seq_len", "seq_lens": "seq_len", "dtypes": "dtype",
    "attentions": "attention", "phases": "phase",
}  # fmt: skip
"""What people write, and the name of the field."""

Settings = TypeVar("Settings")
Axes = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Measurement:
    """How every run of a sweep is measured.

    Attributes:
        kind: `quick`, `full` or `paper`.
        changes: Fields of the protocol that are set to something else.
        meters: Names of meters; None for the best there are.
        exclusive: Whether to keep other processes off the CPUs during rounds.
        device: `auto`, `cpu`, `cuda`, ….
        threads: Threads of torch on the CPU; None for as many as it uses.
        timeout_s: A run is ended after this long, s; None for ten times what was
            guessed, and ten minutes.
    """

    kind: Literal["quick", "full", "paper"] = "full"
    changes: Mapping[str, float] = field(default_factory=dict)
    meters: Sequence[str] | None = None
    exclusive: bool = False
    device: str = "auto"
    threads: int | None = None
    timeout_s: float | None = None

    @property
    def protocol(self) -> MeasureProtocol:
        """The protocol, with the changes made to it."""
        return KINDS[self.kind].changed(**self.changes)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs to be measured, in this order, each once; how, and where."""

    name: str
    specs: tuple[RunSpec, ...]
    machine: str = "this-machine"
    measurement: Measurement = field(default_factory=Measurement)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def argument(self, spec: RunSpec, model: str, nodes: str) -> dict[str, Any]:
        """What the task of one run is given."""
        how = self.measurement
        return {
            "spec": spec.to_dict(),
            "model": model,
            "machine": self.machine,
            "protocol": asdict(how.protocol),
            "meters": None if how.meters is None else list(how.meters),
            "exclusive": how.exclusive,
            "device": how.device,
            "threads": how.threads,
            "nodes": nodes,
        }


# From a file ------------------------------------------------------------------


def shipped_sweeps() -> dict[str, Path]:
    """Sweeps that come with irene, by name."""
    folder = Path(__file__).parent / "sweeps"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_sweep(source: str | Path) -> Sweep:
    """Read a sweep.

    Args:
        source: A file, or the name of a sweep that comes with irene.

    Raises:
        UsageError: It cannot be read, or says something impossible; the message names
            the line.
    """
    shipped = shipped_sweeps()
    path = Path(source)
    if not path.exists() and str(source) in shipped:
        path = shipped[str(source)]
    if not path.exists():
        raise UsageError(
            f"no sweep {str(source)!r}: give a file, or one of {', '.join(shipped)}"
        )
    return _sweep(read_located(path), path.stem)


def _sweep(document: Located, name: str) -> Sweep:
    if isinstance(document.value, dict):
        for key, one in document.value.items():
            if key in PLURALS:
                one.refuse(f"a sweep has no {key!r}; write {PLURALS[key]}")
    top = document.mapping("a sweep", (*AXES, *OTHERS))
    if "schema" in top and top["schema"].value != SCHEMA:
        top["schema"].refuse(
            f"schema {top['schema'].value!r} is not {SCHEMA}; a newer one needs a "
            "newer irene"
        )
    machine = top["machine"].of_type("machine", str) if "machine" in top else None
    return Sweep(
        name,
        tuple(_points(document, top)),
        machine or "this-machine",
        _measurement(top["protocol"]) if "protocol" in top else Measurement(),
        engine_settings(top["engine"]) if "engine" in top else EngineSettings(),
    )


# Points -----------------------------------------------------------------------


def _points(document: Located, top: Mapping[str, Located]) -> list[RunSpec]:
    if "model" not in top and "include" not in top:
        document.refuse("a sweep needs models; write `model: [bert-base-uncased]`")
    found: dict[str, RunSpec] = {}
    for spec in (*_swept(document, top), *_included(top)):
        found.setdefault(spec.digest, spec)
    if not found:
        document.refuse("everything is excluded; there is nothing to measure")
    return list(found.values())


def _swept(document: Located, top: Mapping[str, Located]) -> Iterator[RunSpec]:
    """All combinations of what the sweep lists, without those it excludes."""
    axes = {key: one for key, one in top.items() if key in AXES}
    if "model" not in axes:
        return
    excluded = _entries(top, "exclude")
    useful: set[int] = set()
    for values in _products(document, axes):
        hits = {
            number
            for number, (_, entry) in enumerate(excluded)
            if all(values.get(n, USUAL[n]) in listed for n, listed in entry.items())
        }
        useful |= hits
        if not hits:
            yield _spec(document, axes, values)
    for number, (where, _) in enumerate(excluded):
        if number not in useful:
            where.refuse("this excludes nothing; correct it, or take it out")


def _included(top: Mapping[str, Located]) -> Iterator[RunSpec]:
    """Runs beside the combinations."""
    for where, _ in _entries(top, "include"):
        axes = where.mapping("an included point", AXES)
        if "model" not in axes:
            where.refuse("an included point needs its model; write `model: …`")
        for values in _products(where, axes):
            yield _spec(where, axes, values)


def _entries(top: Mapping[str, Located], key: str) -> list[tuple[Located, Axes]]:
    if key not in top:
        return []
    entries = top[key].value
    if not isinstance(entries, list):
        top[key].refuse(f"{key} must be a list; write `- {{model: gpt2}}` lines")
    mappings = [one.mapping(f"{key}d entry", AXES) for one in entries]
    axes = [{key: _values(key, v) for key, v in each.items()} for each in mappings]
    return list(zip(entries, axes, strict=True))


def _products(where: Located, axes: Mapping[str, Located]) -> Iterator[dict[str, Any]]:
    values = {key: _values(key, one) for key, one in axes.items()}
    count = 1
    for one in values.values():
        count *= len(one)
    if count > MOST_POINTS:
        where.refuse(f"{count:,} points are too many; at most {MOST_POINTS:,}")
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def _values(key: str, where: Located) -> list[Any]:
    """A value, a list of values, or a range, as a list."""
    if isinstance(where.value, dict):
        return _range(key, where)
    values = (
        [one.plain() for one in where.value]
        if isinstance(where.value, list)
        else [where.value]
    )
    if not values:
        where.refuse(f"{key} has no values; give one, a list, or leave {key} out")
    for value in values:
        if isinstance(value, list | dict | bool):
            where.refuse(f"{key} cannot be {value!r}; write a list of plain values")
        if key == "model" and not isinstance(value, str):
            where.refuse(f"model must be a name, got {value!r}; put it in quotes")
    return values


def _range(key: str, where: Located) -> list[int]:
    ends = where.mapping(f"the range of {key}", RANGE)
    example = "write {from: 8, to: 32, by: 8}"
    if "from" not in ends or "to" not in ends:
        where.refuse(f"the range of {key} needs from and to; {example}")
    numbers = {name: one.of_type(f"{name} of {key}", int) for name, one in ends.items()}
    step = numbers.get("by", 1)
    if step < 1 or numbers["to"] < numbers["from"]:
        where.refuse(f"the range of {key} is empty; {example}")
    if (numbers["to"] - numbers["from"]) // step >= MOST_POINTS:
        where.refuse(f"the range of {key} has more than {MOST_POINTS:,} values")
    return list(range(numbers["from"], numbers["to"] + 1, step))


def _spec(
    where: Located, axes: Mapping[str, Located], values: Mapping[str, Any]
) -> RunSpec:
    try:
        return RunSpec(**values)
    except SpecError as error:
        named = str(error).partition(" ")[0].partition("=")[0]
        point = ", ".join(f"{name}: {value}" for name, value in values.items())
        axes.get(named, where).refuse(
            f"{error} (in the point {{{point}}}; correct it, or exclude it)"
        )


# How and where ----------------------------------------------------------------


def _measurement(where: Located) -> Measurement:
    protocol = {f.name for f in fields(MeasureProtocol)}
    own = [f.name for f in fields(Measurement) if f.name != "changes"]
    given = where.mapping("protocol", (*own, *sorted(protocol)))
    hints = typing.get_type_hints(MeasureProtocol)
    changes = {
        name: one.of_type(name, hints[name])
        for name, one in given.items()
        if name in protocol
    }
    rest = {name: one for name, one in given.items() if name not in protocol}
    measurement = _settings(Measurement, rest, changes=changes)
    try:
        _ = measurement.protocol
    except UsageError as error:
        where.refuse(str(error))
    return measurement


def engine_settings(where: Located) -> EngineSettings:
    """Where runs take place, as a file says it."""
    given = where.mapping("engine", ("kind", "ray", "slurm"))
    parts: dict[str, Any] = {}
    if "kind" in given:
        parts["kind"] = given["kind"].of_type("kind", EngineKind)
    kinds: dict[str, type] = {"ray": RaySettings, "slurm": SlurmSettings}
    for name, kind in kinds.items():
        if name in given:
            names = [f.name for f in fields(kind)]
            parts[name] = _settings(kind, given[name].mapping(name, names))
    return EngineSettings(**parts)


def _settings(
    kind: type[Settings], given: Mapping[str, Located], **more: Any
) -> Settings:
    """A dataclass from the entries of a mapping, each of its annotated type."""
    hints = typing.get_type_hints(kind)
    return kind(
        **{name: one.of_type(name, hints[name]) for name, one in given.items()}, **more
    )
