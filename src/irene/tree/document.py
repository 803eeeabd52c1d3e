"""The documents of a tree.

`irene.tree/1` is JSON: lossless, versioned, out and in. The table, as CSV or for
pandas, has one row per node in pre-order, with the costs of one instance.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import index, itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.energy import SharedError
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.saved import read_values
from irene.spec import RunSpec
from irene.tables import csv_of_columns, data_frame
from irene.tree.builder import TreeBuilder
from irene.tree.columns import (
    KINDS,
    SOURCES,
    EnergyColumns,
    Shape,
    Signature,
    features_of_row,
    features_of_rows,
)
from irene.tree.generation import generation_of
from irene.tree.model_tree import ModelTree
from irene.tree.structure import compact
from irene.whole_file import trying_to

SCHEMA = "irene.tree/1"
UNKNOWN = "null"
COSTS = ("params", "flops", "bytes_read", "bytes_written")


def to_dict(tree: ModelTree) -> dict[str, Any]:
    """The whole document as JSON-ready values."""
    document: dict[str, Any] = json.loads(to_text(tree, allow_nan=True))
    return document


def to_text(tree: ModelTree, *, allow_nan: bool = False) -> str:
    """The whole document as JSON without spaces.

    Raises:
        ValueError: An energy is not finite.
    """
    energy = tree.energy_of(0)
    errors = tree.energy.errors if tree.energy else ()
    generation = generation_of(tree)
    document = {
        "schema": SCHEMA,
        "spec": tree.spec and tree.spec.to_dict(),
        "hardware": tree.hardware and tree.hardware.to_dict(),
        "energy_j": energy and energy.joules,
        "low_j": energy and energy.low,
        "high_j": energy and energy.high,
        "source": energy and energy.source,
        "produced_by": tree.energy and tree.energy.produced_by,
        "errors": [each.to_dict() for each in errors],
        "provenance": dict(tree.provenance),
        "notes": list(tree.notes),
        "unsupported": dict(tree.unsupported),
        **({"generation": generation.to_dict()} if generation else {}),
    }
    form, pick = _form(tree)
    nodes = form % pick([*_costs_of(tree), *_energies_of(tree, allow_nan)])
    return f'{compact(document)[:-1]},"tree":{nodes}}}'


def _form(tree: ModelTree) -> tuple[str, itemgetter[Any]]:
    """All nodes but for their numbers, and which number stands where.

    Trees of one structure have it in common, whatever their sizes.
    """
    energy, nothing = tree.energy, np.zeros(len(tree), np.uint8)
    known = nothing if energy is None else energy.joules == energy.joules
    source = nothing if energy is None else energy.source
    decided = (tree.columns.op, tree.columns.params, known, source)
    key = "document", *(each.tobytes() for each in decided)

    def find() -> tuple[str, itemgetter[Any]]:
        parts = [*_starts(tree), *_ends(known.tolist(), source.tolist())]
        ordered = [parts[place] for place in tree.structure.order]
        places = itemgetter(*[place for _, some in ordered for place in some])
        return "".join([text for text, _ in ordered]), places

    return tree.structure.once(key, find)


def _starts(tree: ModelTree) -> Iterator[tuple[str, range]]:
    """Every node up to its children, and where its costs are in `_costs_of`."""
    columns, quoted = tree.columns, [compact(text) for text in tree.strings]
    names = ("kind", "op", "count", "params")
    lists = [getattr(columns, name).tolist() for name in names]
    facts = zip(tree.parents.tolist(), tree.paths, tree.calls, *lists, strict=True)
    for row, (parent, path, call, kind, op, count, params) in enumerate(facts):
        told = [{"name": n, "place": place} for n, place in tree.members.get(row, ())]
        members = f',"members":{compact(told)}' if told else ""
        head = (
            f'{"," * (row > parent + 1)}{{"path":{compact(path)},'
            f'"kind":"{KINDS[kind]}","op":{quoted[op]},"call":{call},"count":{count}'
        )
        yield (
            (
                f'{_plain(head)},%s,"params":{params},"flops":%s,"bytes_read":%s,'
                f'"bytes_written":%s,"bytes":%s{_plain(members)}%s,"children":['
            ),
            range(row, 6 * len(tree), len(tree)),
        )


def _plain(text: str) -> str:
    """A text that has no places for values."""
    return text.replace("%", "%%")


def _ends(known: Sequence[int], source: list[int]) -> Iterator[tuple[str, range]]:
    """Every node from its children on, and where its energy is, if that is known."""
    rows = len(known)
    for row, (is_known, told) in enumerate(zip(known, source, strict=True)):
        energies = (
            f'],"energy_j":%s,"low_j":%s,"high_j":%s,"source":"{SOURCES[told]}",'
            '"own_j":%s,"share":%s}'
        )
        places = range(6 * rows + row, 11 * rows, rows)
        yield (energies, places) if is_known else ("]}", range(0))


def _costs_of(tree: ModelTree) -> Iterator[Any]:
    """Of all nodes: shapes, FLOPs, bytes read, written, both, what else was measured.

    Costs are of one instance, children included.
    """
    columns = tree.columns
    which = columns.signature.tolist()
    used = {place: tree.signatures[place] for place in {*which}}
    # Written at once; shapes are numbers, so that marks between them are told apart.
    marked = [part for i, o, _ in used.values() for part in (i, None, o, None)]
    sides = iter(compact(marked)[1:-6].split(",null,"))
    shapes = {
        place: f'"inputs":{i},"outputs":{o},"dtype":{_quoted(used[place].dtype)}'
        for place, i, o in zip(used, sides, sides, strict=True)
    }
    yield from [shapes[place] for place in which]
    yield from columns.flops.tolist()
    yield from columns.bytes_read.tolist()
    yield from columns.bytes_written.tolist()
    yield from (columns.bytes_read + columns.bytes_written).tolist()
    measured = [""] * len(tree)
    known = [np.flatnonzero(values == values) for values in tree.features.values()]
    for row in {row for rows in known for row in rows.tolist()}:
        features = compact(features_of_row(tree.features, row))
        measured[row] = f',"features":{features}'
    yield from measured


_quoted = lru_cache(maxsize=100)(compact)


def _energies_of(tree: ModelTree, allow_nan: bool) -> Iterator[Any]:
    """Of all nodes: energy, low, high, own and share of the whole."""
    energy = tree.energy
    if energy is None:
        return
    assert tree.own_j is not None
    shares = energy.joules * tree.multiplicity / (float(energy.joules[0]) or np.nan)
    for column in (energy.joules, energy.low, energy.high, tree.own_j, shares):
        values = column.tolist()
        if not np.isfinite(column).all():
            values = [_number(value, allow_nan=allow_nan) for value in values]
        yield from values


def _number(value: float, *, allow_nan: bool) -> str:
    return UNKNOWN if value != value else json.dumps(value, allow_nan=allow_nan)


def load(path: str | Path) -> ModelTree:
    """Read a saved tree.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a tree, is corrupt, or of a newer version.
    """
    with trying_to("read", path):
        text = Path(path).read_bytes()
    try:
        return from_json(text)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def from_json(text: str | bytes) -> ModelTree:
    """Read what `to_json` wrote.

    Raises:
        FormatError: The text is not such a document, or of a newer version.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise FormatError("not a tree: the JSON is not an object")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise FormatError(
            f"schema is {schema!r}, this version reads {SCHEMA!r}; "
            "a newer file needs a newer irene"
        )
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise FormatError(f"corrupt tree: {type(error).__name__}: {error}") from error


def _read(document: Mapping[str, Any]) -> ModelTree:
    builder = TreeBuilder()
    energies: list[tuple[float, float, float, int]] = []
    features: list[dict[str, float]] = []
    stack: list[tuple[int, str, Mapping[str, Any]]] = [(-1, "", document["tree"])]
    while stack:
        parent, above, node = stack.pop()
        handle = builder.add(
            parent,
            relative_path(node["path"], above),
            node["kind"],
            node["op"],
            signature=_signature(node),
            count=node["count"],
            members=tuple((m["name"], m["place"]) for m in node.get("members", ())),
            **_own_costs(node),
        )
        if node["kind"] not in KINDS:
            raise ValueError(f"unknown kind {node['kind']!r}")
        energies.append(_energy(node))
        features.append({k: float(v) for k, v in node.get("features", {}).items()})
        children = reversed(node["children"])
        stack.extend((handle, node["path"], child) for child in children)
    tree = builder.build(
        spec=document["spec"] and RunSpec.from_dict(document["spec"]),
        hardware=document["hardware"] and Hardware.from_dict(document["hardware"]),
        provenance=document["provenance"],
        notes=document["notes"],
        unsupported=document["unsupported"],
    ).with_features(features_of_rows(features))
    if document["produced_by"] is None:
        return tree
    joules, low, high, source = (
        np.array(column) for column in zip(*energies, strict=True)
    )
    return tree.with_energy(
        EnergyColumns(
            joules,
            low,
            high,
            source.astype(np.uint8),
            document["produced_by"],
            tuple(read_values(SharedError, e) for e in document.get("errors", ())),
        ),
        tree.hardware,
    )


def _own_costs(node: Mapping[str, Any]) -> dict[str, int]:
    """Costs that the children do not carry, as the builder wants them."""
    own = {name: node[name] for name in COSTS}
    for name in COSTS[1:]:
        own[name] -= sum(child[name] * child["count"] for child in node["children"])
    return own


def relative_path(path: str, above: str) -> str:
    """A path as a tree keeps it: from its parent, or with a leading slash."""
    if not above:
        return path
    inside = path.startswith(f"{above}.")
    return path[len(above) + 1 :] if inside else f"/{path}"


def _signature(node: Mapping[str, Any]) -> Signature:
    if not isinstance(node["dtype"], str):
        raise TypeError(f"dtype {node['dtype']!r}")
    return Signature(
        _read_shapes(node["inputs"]), _read_shapes(node["outputs"]), node["dtype"]
    )


def _read_shapes(lists: Sequence[Sequence[int]]) -> tuple[Shape, ...]:
    return tuple([tuple([index(side) for side in shape]) for shape in lists])


def _energy(node: Mapping[str, Any]) -> tuple[float, float, float, int]:
    if "energy_j" not in node:
        return (np.nan, np.nan, np.nan, 0)
    source = SOURCES.index(node["source"])
    return (node["energy_j"], node["low_j"], node["high_j"], source)


ENERGY_COLUMNS = ("energy_j", "low_j", "high_j", "source", "own_j", "share")


def tree_csv(tree: ModelTree) -> str:
    """The table as CSV, empty where nothing is known."""
    columns = {n: v for n, v in _costs(tree).items() if n != "depth"}
    energies = {name: [None] * len(tree) for name in ENERGY_COLUMNS} | _energies(tree)
    if tree.energy is not None:
        energies["source"] = [
            source if joules == joules else None
            for source, joules in zip(
                energies["source"], tree.energy.joules.tolist(), strict=True
            )
        ]
    return csv_of_columns({
        name: _told(values)
        for name, values in (columns | energies | tree.features).items()
    })  # fmt: skip


def tree_frame(tree: ModelTree) -> Any:
    """The table as a pandas DataFrame, not-a-number where nothing is known.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    return data_frame(_costs(tree) | _energies(tree) | tree.features)


def _costs(tree: ModelTree) -> dict[str, Any]:
    columns = tree.columns
    signatures = [tree.signatures[i] for i in columns.signature.tolist()]
    return {
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": np.array(tree.strings, dtype=object)[columns.op],
        "depth": columns.depth,
        "call": tree.calls,
        "count": columns.count,
        "instances": tree.multiplicity,
        "dtype": [signature.dtype for signature in signatures],
        "inputs": [_shapes(signature.inputs) for signature in signatures],
        "outputs": [_shapes(signature.outputs) for signature in signatures],
        "params": columns.params,
        "flops": columns.flops,
        "bytes_read": columns.bytes_read,
        "bytes_written": columns.bytes_written,
    }


def _energies(tree: ModelTree) -> dict[str, Any]:
    energy = tree.energy
    if energy is None:
        return {}
    total_j = energy.joules[0]
    shares = energy.joules * tree.multiplicity / (total_j if total_j > 0 else np.nan)
    sources = [SOURCES[source] for source in energy.source.tolist()]
    values = (energy.joules, energy.low, energy.high, sources, tree.own_j, shares)
    return dict(zip(ENERGY_COLUMNS, values, strict=True))


def _shapes(shapes: Sequence[Shape]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _told(values: Sequence[Any] | Floats) -> list[Any]:
    """Values of a column of a CSV; unknown ones are nothing."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if value != value else value for value in listed]
