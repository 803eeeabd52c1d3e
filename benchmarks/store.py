"""How quick a store of measured trees is to merge and to sum up, beside plain pandas.

Stores are made of a traced bert-base, node by node, with energies that differ. A store
of N nodes is summed up: nodes, known energies, lowest and highest energy per kind. It
is merged with one of a fifth of that, half of which it has already.

The peer is pandas on the same Parquet files: `read_parquet`, `concat`, rows of entries
that are there twice dropped, `to_parquet`; for the summary `read_parquet` of the three
columns that it takes, `concat` and `groupby`. It verifies no checksum and waits for no
disk, both of which a merge of stores does. Each task runs in a process of its own; its
peak memory is that of the process, imports included. pandas may take 60 % of the memory
that is free.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FREE_PART = 0.6
LIMIT = "IRENE_BENCHMARK_LIMIT_BYTES"
COLUMNS = ["model", "kind", "energy_j"]


def make_stores(folder: Path, nodes: int) -> None:
    """A store of so many nodes, and a smaller one, half of which is in the first."""
    from irene.dataset.store import Origin, Store
    from irene.dataset.store.tree_rows import entry_table, tree_rows
    from irene.hardware import Hardware

    tree, machine = _tree(), Hardware("made-up", "wall", "no machine")
    origin = Origin("nowhere", machine, {"torch": "0"}, "none", engine="made up")
    trees = max(10, round(nodes / len(tree)))
    told = {"provenance": {}, "notes": [], "unsupported": {}}
    blank = entry_table(_entry(tree, origin, 0), told, tree_rows(tree))
    tenth = trees // 10
    for name, places in (
        ("a", range(trees)),
        ("b", range(trees - tenth, trees + tenth)),
    ):
        store = Store.open(folder / name, create=True)
        _fill(store, tree, origin, blank, places)


def _tree() -> Any:
    import numpy as np

    from irene.trace.tracer import trace
    from irene.tree import EnergyColumns

    tree = trace("bert-base-uncased", batch_size=8, seq_len=128).at_level("ml")
    joules = tree.columns.flops * 1e-11 + 1e-3
    source = np.zeros(len(tree), np.uint8)
    energy = EnergyColumns(joules, joules * 0.9, joules * 1.1, source, "made up")
    return tree.with_features({"times_mean": joules / 200}).with_energy(energy)


def _entry(tree: Any, origin: Any, place: int, file: str = "") -> Any:
    from dataclasses import replace

    from irene.dataset.store import Entry

    spec = replace(tree.spec, batch_size=1 + place % 512, seq_len=1 + place // 512)
    name = f"{place * 2654435761 % 2**32:032x}"
    return Entry(name, spec, "made-up", origin, "measured", len(tree), place, file)


def _fill(store: Any, tree: Any, origin: Any, blank: Any, places: range) -> None:
    import numpy as np
    import pyarrow as pa

    from irene.dataset.store.segments import segments_of

    entries: dict[str, Any] = {}
    random = np.random.default_rng(places.start)
    joules = blank.column("energy_j").to_numpy()
    size = len(blank)

    def tables() -> Iterator[tuple[list[str], Any]]:
        for place in places:
            entry = _entry(tree, origin, place)
            entries[entry.id] = entry
            header = json.dumps({"entry": entry.to_dict()})
            values = {
                "entry": pa.array([entry.id] * size),
                "header": pa.array([header, *[None] * (size - 1)]),
                "energy_j": pa.array(joules * random.uniform(0.9, 1.1, size)),
                "batch_size": pa.array(np.full(size, entry.spec.batch_size)),
                "seq_len": pa.array(np.full(size, entry.spec.seq_len)),
            }
            table = blank
            for name, column in values.items():
                index = table.schema.get_field_index(name)
                table = table.set_column(index, name, column)
            yield [entry.id], table

    for ids, content in segments_of(tables()):
        store.put(entries, ids, content)


def ours_merge(folder: Path) -> Any:
    """Merge both stores."""
    from irene.dataset.store import Store
    from irene.dataset.store.store_exchange import merge_stores

    sources = [Store.open(folder / name) for name in ("a", "b")]
    return merge_stores(sources, Store.open(folder / "merged", create=True)).nodes


def pandas_merge(folder: Path) -> Any:
    """The same with pandas."""
    import pandas as pd

    a, b = (_frame(folder / name, None) for name in ("a", "b"))
    whole = pd.concat([a, b[~b["entry"].isin(a["entry"].unique())]])
    whole.to_parquet(folder / "merged.parquet")
    return len(whole)


def ours_summary(folder: Path) -> Any:
    """Sum up a store."""
    from irene.dataset.store import Store
    from irene.dataset.summaries import summarise_store

    (machine,) = summarise_store(Store.open(folder / "a")).machines
    levels = machine.levels
    return [[one.kind, one.nodes, one.lowest_j, one.highest_j] for one in levels]


def pandas_summary(folder: Path) -> Any:
    """The same with pandas."""
    frame = _frame(folder / "a", COLUMNS)
    groups = frame.groupby(["model", "kind"])["energy_j"]
    told = groups.agg(["size", "count", "min", "max"]).reset_index()
    order = ["model", "module", "ml", "math"]
    rows = told[["kind", "size", "min", "max"]].to_numpy().tolist()
    return sorted(rows, key=lambda row: order.index(row[0]))


def _frame(store: Path, columns: list[str] | None) -> Any:
    import pandas as pd

    files = sorted((store / "segments").iterdir())
    return pd.concat([pd.read_parquet(file, columns=columns) for file in files])


TASKS = {
    "ours_merge": ours_merge,
    "pandas_merge": pandas_merge,
    "ours_summary": ours_summary,
    "pandas_summary": pandas_summary,
}


def run_task(name: str, folder: Path) -> None:
    """Do one task in this process and print what it took."""
    import pandas as pd  # noqa: F401  imports are not what is measured
    import pyarrow.parquet  # noqa: F401

    import irene.dataset.store.store_exchange
    import irene.dataset.summaries  # noqa: F401

    limit_bytes = int(os.environ[LIMIT])
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    start, start_cpu = time.perf_counter(), time.process_time()
    answer = TASKS[name](folder)
    told = {
        "s": time.perf_counter() - start,
        "cpu_s": time.process_time() - start_cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "answer": answer,
    }
    print(json.dumps(told))


def measure(name: str, folder: Path, limit_bytes: int) -> dict[str, Any] | None:
    """Do one task in a process of its own; None if it ran out of memory."""
    done = subprocess.run(
        [sys.executable, __file__, "--task", name, "--folder", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, LIMIT: str(limit_bytes)},
    )
    if done.returncode:
        if "MemoryError" in done.stderr or "bad_alloc" in done.stderr:
            return None
        raise SystemExit(f"{name}: {done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def compare(nodes: int, folder: Path, what: str) -> str:
    """One line: ours, that of pandas, and the ratio."""
    limit_bytes = round(FREE_PART * _free_bytes())
    ours = measure(f"ours_{what}", folder, limit_bytes)
    theirs = measure(f"pandas_{what}", folder, limit_bytes)
    assert ours is not None
    line = f"{nodes:>11,} {_cells(ours)}"
    if theirs is None:
        return f"{line}   pandas ran out of {limit_bytes / 2**30:.1f} GiB"
    assert _close(ours["answer"], theirs["answer"]), (ours, theirs)
    ratio, less = theirs["s"] / ours["s"], theirs["peak_mib"] / ours["peak_mib"]
    return (
        f"{line} {_cells(theirs)} {ratio:>7.2f}× "
        f"{theirs['cpu_s'] / ours['cpu_s']:>7.2f}× {less:>7.2f}×"
    )


def _cells(told: dict[str, Any]) -> str:
    return f"{told['s']:>8.2f} {told['cpu_s']:>8.2f} {told['peak_mib']:>8,.0f}"


def _close(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, list):
        return bool(ours == theirs)
    return len(ours) == len(theirs) and all(
        a[:2] == b[:2] and abs(a[2] - b[2]) < 1e-9 and abs(a[3] - b[3]) < 1e-9
        for a, b in zip(ours, theirs, strict=True)
    )


def _free_bytes() -> int:
    with Path("/proc/meminfo").open() as file:
        told = dict(line.split(":") for line in file)
    return int(told["MemAvailable"].split()[0]) * 1024


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--what", choices=("merge", "summary"), nargs="+")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_stores(options.folder, options.make)
        return 0
    if options.task:
        run_task(options.task, options.folder)
        return 0
    lines: dict[str, list[str]]
    lines = {what: [] for what in options.what or ("merge", "summary")}
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="irene-store-") as name:
            folder = Path(name)
            # A process starts with the peak of the one that started it.
            made = [sys.executable, __file__, "--make", str(nodes), "--folder", name]
            subprocess.run(made, check=True)
            for what, told in lines.items():
                told.append(compare(nodes, folder, what))
                print(f"{what} of {nodes:,} nodes done", file=sys.stderr)
    for what, told in lines.items():
        print(
            f"\n{what}: nodes; s, s of CPU, MiB at the peak: of ours, of pandas, "
            "and the ratios"
        )
        print("\n".join(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
