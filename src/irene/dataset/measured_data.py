"""Measured data, wherever it is and whichever of the formats: found, read, written.

Measured trees become the table that predictors learn from, in the units of 2021.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.dataset.formats.csv2021 import (
    FILES,
    FUNCTIONAL,
    read_folder,
    write_folder,
)
from irene.dataset.formats.jsonl2021 import read_jsonl, write_jsonl
from irene.dataset.formats.nodes_parquet import (
    Provenance,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey, joined_columns
from irene.errors import FormatError, UsageError
from irene.tree import KINDS, ModelTree
from irene.whole_file import cache_folder, trying_to

Format = Literal["csv", "jsonl", "parquet"]
PARQUET_MAGIC = b"PAR1"
VARIABLE = "IRENE_DATA_DIR"
"""Environment variable that names the folder of the user's data."""

ODD = 10.0
"""Parts of so many times their whole, or power, or less, are of another unit."""
WARNING = "warning: "
ENDINGS = ("", ".parquet", ".jsonl")


def read_data(path: Path | str, name: str | None = None) -> tuple[NodeTable, list[str]]:
    """Read measured trees.

    Args:
        path: A folder of 2021 CSV files, a 2021 JSONL file, a Parquet file of ours, a
            store of one machine and one software, or a name such as `irene-pc1` that
            is looked up in the folder that the environment variable IRENE_DATA_DIR
            names.
        name: What the data is called; None for the name it brings.

    Returns:
        The table, and in words what was left out of it.

    Raises:
        UsageError: There is nothing there.
        FormatError: It is damaged; with file and line.
        MissingExtraError: It is Parquet and pyarrow is not installed.
    """
    from irene.dataset.store.store_files import is_store

    found = data_path(path)
    if is_store(found):
        from irene.dataset.store import Store

        return Store.open(found).table(name=name), []
    kind = format_of(found)
    if kind == "csv":
        table, left_out = read_folder(found)
    elif kind == "jsonl":
        table, left_out = read_jsonl(found)
    else:
        table, left_out = read_parquet(found), []
    odd = [*_odd_powers(table)] or [*_odd_sums(table)]  # one fault is told once
    return (table if name is None else replace(table, name=name)), [*left_out, *odd]


def _odd_sums(table: NodeTable) -> Iterator[str]:
    """What to say where parts do not make up their whole."""
    inner = table.parent >= 0
    below = np.zeros(len(table))
    np.add.at(below, table.parent[inner], np.nan_to_num(table.energy_j[inner]))
    known = table.has_children & (table.energy_j > 0)
    if known.any():
        ratio = float(np.median(below[known] / table.energy_j[known]))
        if not 1 / ODD < ratio < ODD:
            yield (
                f"{WARNING}parts take {ratio:.3g} times what they are part of: are "
                "energies of one level missing, or in another unit?"
            )


def _odd_powers(table: NodeTable) -> Iterator[str]:
    """Levels whose energy per second is far from that of all: one machine drew it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        power_w = table.energy_j / table.features["times_mean"]
    known = np.isfinite(power_w) & (power_w > 0)
    functional = np.isin(np.array(table.op), sorted(FUNCTIONAL))
    levels = {f"{kind}s": table.kind == code for code, kind in enumerate(KINDS)}
    primitives = levels.pop("mls")
    levels["primitives"] = primitives & ~functional
    levels["functional primitives"] = primitives & functional
    medians = {
        name: float(np.median(power_w[rows & known]))
        for name, rows in levels.items()
        if (rows & known).any()
    }
    usual = float(np.median(list(medians.values()))) if medians else 0.0
    for name, watts in medians.items():
        if not 1 / ODD < watts / usual < ODD:
            yield (
                f"{WARNING}{name} take {watts:.3g} W, others {usual:.3g} W: are their "
                "energies or times in another unit?"
            )


def write_data(
    table: NodeTable, path: Path, kind: Format, provenance: Provenance | None = None
) -> None:
    """Write measured trees.

    Raises:
        UsageError: The table does not fit the format, or cannot be written.
        MissingExtraError: It is `parquet` and pyarrow is not installed.
    """
    if kind == "csv":
        write_folder(table, path)
    elif kind == "jsonl":
        write_jsonl(table, path)
    else:
        write_parquet(table, path, provenance)


def data_path(path: Path | str) -> Path:
    """The file or folder that a path or a name means."""
    try:
        if Path(path).exists():
            return Path(path)
    except (OSError, ValueError) as error:  # too long, or with a null character
        raise UsageError(f"{str(path)[:80]!r} is not a path: {error}") from error
    return _named_data(str(path))


def format_of(path: Path) -> Format:
    """The format of a folder or file, from its first bytes."""
    if path.is_dir():
        return "csv"
    with trying_to("read", path), path.open("rb") as file:
        start = file.read(4096)
    if not start:
        raise FormatError(f"{path}: the file is empty")
    if start.startswith(PARQUET_MAGIC) or path.suffix == ".parquet":
        return "parquet"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{") or path.suffix == ".jsonl":
        return "jsonl"
    hint = ""
    if path.name in FILES.values() or path.suffix == ".csv":
        hint = f"; of CSV files, give the folder that holds {', '.join(FILES.values())}"
    raise FormatError(f"{path}: neither a JSONL nor a Parquet file of ours{hint}")


def data_folders() -> list[Path]:
    """Folders that hold data: that of the variable, then the cache of this program."""
    chosen = os.environ.get(VARIABLE)
    return [*([Path(chosen)] if chosen else []), cache_folder() / "irene" / "data"]


def home_of(name: str) -> Path:
    """The folder that fetched data of a name is put into."""
    return data_folders()[0] / name


def _named_data(name: str) -> Path:
    """The folder or file of a name such as `irene-pc1`."""
    plain = Path(name).name == name and name not in (".", "..")
    for folder in data_folders() if plain else ():
        for ending in ENDINGS:
            path = folder / f"{name}{ending}"
            if path.exists():
                return path
    raise UsageError(_not_found(name, plain))


def _not_found(name: str, plain: bool) -> str:
    if not plain:
        return f"there is no file or folder {name}"
    chosen = os.environ.get(VARIABLE)
    now = f"now {chosen}" if chosen else "it is not set"
    places = ", ".join(str(folder) for folder in data_folders())
    return (
        f"there is no data {name!r}: neither a file or folder here, nor {name}, "
        f"{name}.parquet or {name}.jsonl in {places}. Set {VARIABLE} to the "
        f"folder that holds it ({now}), or fetch the public data of 2021 "
        "with `irene data fetch irene-2021` and ask for irene-pc1"
    )


def configs_beside(data: Path, models: Iterable[str]) -> dict[str, str]:
    """Config files that lie in or next to data, by name of the model.

    `configs/NAME.json` is looked for inside a folder of data, then next to the data.
    """
    inside = [data / "configs"] if data.is_dir() else []
    folders = [*inside, data.resolve().parent / "configs"]
    found = {}
    for model in models:
        name = model.rpartition("/")[2]
        files = [folder / f"{name}.json" for folder in folders]
        file = next((file for file in files if name and file.is_file()), None)
        if file is not None:
            found[model] = str(file)
    return found


COSTS = ("params", "flops", "bytes_read", "bytes_written")
MEGA = 1e6
"""Unit of `flops` in a table."""
MIB = 2**20
"""Unit of `mem_bytes` in a table, bytes."""


def table_of(trees: Iterable[ModelTree], name: str = "measured") -> NodeTable:
    """Measured trees of forward passes as one table, in the units of the 2021 data.

    Of two of the same model and size, the later one counts.

    Raises:
        UsageError: A tree carries no energy, or is not a run that the table can hold.
    """
    parts: dict[TreeKey, dict[str, Any]] = {}
    for tree in trees:
        key = _key(tree)
        parts.pop(key, None)
        parts[key] = _columns(tree.unfold().at_level("ml"))
    return NodeTable.from_columns(name, [*parts], joined_columns([*parts.values()]))


def _key(tree: ModelTree) -> TreeKey:
    spec = tree.spec
    if spec is None or tree.energy is None:
        raise UsageError("data is made of trees that name their run and carry energy")
    if spec.phase != "forward":
        raise UsageError(
            f"data holds forward passes, and this tree is of phase {spec.phase}: keep "
            "it with --out"
        )
    return TreeKey.of(spec)


def _columns(tree: ModelTree) -> dict[str, Any]:
    assert tree.energy is not None
    costs = {name: getattr(tree.columns, name) for name in COSTS}
    return {
        "parent": tree.parents,
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in tree.columns.kind],
        "op": [tree.strings[op] for op in tree.columns.op],
        **in_table_units(costs, tree.features, tree.energy.joules),
        "disturbed": disturbed_nodes(tree),
    }


def disturbed_nodes(tree: ModelTree) -> npt.NDArray[np.bool_]:
    """Whether rounds of every node that count have a flag."""
    found = np.zeros(len(tree), dtype=np.bool_)
    for name, rounds in tree.features.items():
        if name.startswith("rounds_") and name != "rounds_repeated":
            found |= np.nan_to_num(rounds) > 0
    return found


def in_table_units(
    costs: Mapping[str, Any], features: Mapping[str, Floats], energy_j: Floats
) -> dict[str, Floats]:
    """Features and energy of nodes as a table has them.

    What was measured, by the names of a table, counts before costs; energy is unknown
    where the meter did not move.
    """
    counted = {
        "num_parameters": costs["params"],
        "flops": costs["flops"] / MEGA,
        "mem_bytes": (costs["bytes_read"] + costs["bytes_written"]) / MIB,
    }
    unknown = np.full(len(energy_j), np.nan)
    columns = {"energy_j": np.where(energy_j > 0, energy_j, np.nan)}
    for name in NODE_FEATURES:
        measured = np.maximum(features.get(name, unknown), 0.0)
        other = counted.get(name, unknown)
        columns[name] = np.where(np.isnan(measured), other, measured)
    return columns


def add_to_file(tree: ModelTree, path: Path) -> int:
    """Put a measured tree into a Parquet file; how many trees it holds now.

    A tree of the same model and size is replaced. The file changes as a whole or not
    at all.

    Raises:
        UsageError: The file is of another machine or kind of run, or cannot be written.
    """
    table, spec, hardware = table_of([tree], path.stem), tree.spec, tree.hardware
    if spec is None or hardware is None:
        raise UsageError("this tree does not say which run it is of, or where")
    date = tree.provenance.get("measured", "")
    provenance = Provenance.of_run("irene measure", spec, hardware, date)
    if path.exists():
        there = read_provenance(path)
        for what in ("hardware", "source"):
            old, now = getattr(there, what), getattr(provenance, what)
            if old != now:
                raise UsageError(
                    f"{path} is of {old or 'something else'}, this run of {now}: trees "
                    "that differ in that do not belong into one file; choose another"
                )
        before = read_parquet(path)
        kept = before.take(
            [i for i, k in enumerate(before.keys) if k not in table.keys]
        )
        columns = joined_columns([kept.to_columns(), table.to_columns()])
        keys = [*kept.keys, *table.keys]
        table = NodeTable.from_columns(before.name, keys, columns)
    write_parquet(table, path, provenance)
    return len(table.keys)
