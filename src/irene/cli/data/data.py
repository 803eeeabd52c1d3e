"""`irene data`: look into measured data, convert it, fetch it, look after a store."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from irene.cli.options import add_table, chosen, pair
from irene.cli.output import put, say
from irene.cli.progress import progress_bar, working
from irene.errors import UsageError
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.dataset import NodeTable, Provenance
    from irene.dataset.store import Store

EXAMPLES = """\
examples:
  irene data fetch irene-2021
  irene data show irene-pc1
  irene data show measured.parquet --json
  irene data convert irene-pc1 --to parquet --out irene-pc1.parquet
  irene data convert trees.jsonl --to csv --out folder
  irene data show STORE
  irene data check STORE
  irene data merge STORE-A STORE-B lab.parquet --out STORE
  irene data export STORE --to jsonl --out trees.jsonl --hardware lab
"""
Action = tuple[str, type, Callable[[Any], int]]
"""What it does, in words; its options; what does it, with the exit code."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """What every action is asked with.

    Attributes:
        json: One JSON document.
    """

    json: bool = False


@dataclass(frozen=True, kw_only=True)
class Data(Document):
    """One set of measured trees.

    Attributes:
        data: Store, folder of 2021 CSV files, JSONL or Parquet file, or a name such as
            irene-pc1.
    """

    data: Annotated[str, Asked(word=True, metavar="DATA")]


@dataclass(frozen=True, kw_only=True)
class InStore(Document):
    """One store.

    Attributes:
        store: Folder of `irene collect`.
    """

    store: Annotated[str, Asked(word=True, metavar="STORE")]


@dataclass(frozen=True, kw_only=True)
class Written(Document):
    """A file that is made.

    Attributes:
        to: The format.
        out: Folder for csv, otherwise file; what is there is replaced.
    """

    to: Literal["csv", "jsonl", "parquet"]
    out: Annotated[str, Asked(metavar="PATH")]


@dataclass(frozen=True, kw_only=True)
class Conversion(Written, Data):
    """Data in another format.

    Attributes:
        name: What the data is called (parquet).
        hardware: The machine that was measured (parquet).
        date: When it was measured (parquet).
    """

    name: str | None = None
    hardware: str | None = None
    date: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fetching(Document):
    """Public data.

    Attributes:
        data: irene-2021.
        out: Folder for the files (default: IRENE_DATA_DIR/irene-pc1, or the user's
            cache).
        base_url: Another place that has the same files.
    """

    data: Annotated[str, Asked(word=True, metavar="NAME")]
    out: Annotated[str | None, Asked(metavar="DIR")] = None
    base_url: Annotated[str | None, Asked(metavar="URL")] = None


@dataclass(frozen=True, kw_only=True)
class Merging(Document):
    """Several sets as one.

    Attributes:
        data: Stores, and data of any other format.
        out: Store that they are added to; made if there is none.
        keep_apart: Machines of one name that differ are called NAME@HOST.
        as_: Machines of one name that differ are one, called NAME.
    """

    data: Annotated[tuple[str, ...], Asked(word=True, metavar="DATA")]
    out: Annotated[str, Asked(metavar="STORE")]
    keep_apart: Annotated[bool, Asked(either="names")] = False
    as_: Annotated[str | None, Asked(metavar="NAME", either="names")] = None


@dataclass(frozen=True, kw_only=True)
class Export(Written, InStore):
    """Some trees of a store, as a file.

    Attributes:
        hardware: Trees of this machine.
        software: Trees of this software, as `irene data show` names it.
        only: Trees of runs with these values, such as dtype=fp32.
        allow_mixed: Mix trees of different software.
    """

    hardware: Annotated[str | None, Asked(metavar="NAME")] = None
    software: Annotated[str | None, Asked(metavar="TEXT")] = None
    only: Annotated[tuple[str, ...], Asked(metavar="FIELD=VALUE …")] = ()
    allow_mixed: bool = False


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, table, _) in ACTIONS.items():
        one = actions.add_parser(
            name,
            prog=f"irene data {name}",
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # Also known before the action; what is said there must not be forgotten.
        one.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )
        add_table(one, table)


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    _, table, run_action = ACTIONS[options.action]
    return run_action(chosen(table, options))


def _say_left_out(options: Document, left_out: Sequence[str]) -> None:
    from irene.cli.data.data_text import left_out_line

    for line in () if options.json else left_out:
        say(left_out_line(line))


# Data of any format -----------------------------------------------------------


def _show(options: Data) -> int:
    from irene.cli.data.data_text import store_parts, table_parts
    from irene.dataset import read_data
    from irene.dataset.measured_data import data_path
    from irene.dataset.store import Store, is_store
    from irene.dataset.summaries import summarise, summarise_store

    path = data_path(options.data)
    if is_store(path):
        with working(f"reading {path}"):
            store = summarise_store(Store.open(path))
        put(options, asdict(store), store_parts(store), "irene.data-store/1")
        return 0
    with working(f"reading {options.data}"):
        table, left_out = read_data(options.data)
        summary = summarise(table)
    provenance = _provenance(path)
    document = {
        **asdict(summary),
        "provenance": provenance and asdict(provenance),
        "left_out": left_out,
    }
    parts = table_parts(summary, provenance, left_out)
    put(options, document, parts, "irene.data/1")
    return 0


def _provenance(path: Path) -> Provenance | None:
    from irene.dataset import read_provenance
    from irene.dataset.measured_data import format_of

    return read_provenance(path) if format_of(path) == "parquet" else None


def _convert(options: Conversion) -> int:
    from irene.dataset import Provenance, read_data, write_data
    from irene.dataset.measured_data import data_path

    with working(f"converting {options.data}"):
        table, left_out = read_data(options.data, options.name)
        known = _provenance(data_path(options.data)) or Provenance(source=options.data)
        given = {"hardware": options.hardware, "date": options.date}
        known = replace(known, **{k: v for k, v in given.items() if v is not None})
        write_data(table, Path(options.out), options.to, known)
    _say_left_out(options, left_out)
    return _put_written(options, "irene.data-convert/1", table, left_out=left_out)


def _put_written(options: Written, schema: str, table: NodeTable, **more: Any) -> int:
    out, counts = str(Path(options.out)), (len(table.keys), len(table))
    told = {"out": out, "format": options.to, "trees": counts[0], "nodes": counts[1]}
    line = f"{out}: {counts[0]:,} trees, {counts[1]:,} nodes"
    put(options, told | more, [line], schema)
    return 0


def _fetch(options: Fetching) -> int:
    from irene.dataset.fetch import PUBLIC, fetch
    from irene.dataset.measured_data import home_of

    data = PUBLIC.get(options.data)
    if data is None:
        raise UsageError(f"no data {options.data!r}; there is {', '.join(PUBLIC)}")
    folder = Path(options.out) if options.out else home_of(data.folder)
    files = []
    with progress_bar("downloading") as show:
        for file, downloaded in fetch(data, folder, options.base_url, show):
            told = {"bytes": file.size_bytes, "sha256": file.sha256}
            files.append({"name": file.name, **told, "downloaded": downloaded})
            state = "downloaded" if downloaded else "already here"
            say(f"{file.name}: {file.size_bytes:,} bytes, {state}")
    say(data.about)
    document = {"folder": str(folder), "files": files}
    put(options, document, [str(folder)], "irene.data-fetch/1")
    return 0


# Stores -----------------------------------------------------------------------


def _check(options: InStore) -> int:
    from irene.dataset.store import Store

    # Not `Store.open`, which would put things in order without a word.
    store = Store(Path(options.store))
    store.files.check()
    with working(f"checking {store.path}"):
        findings = store.check()
    trees = sum(entry.state == "measured" for entry in store.entries())
    segments = len(store.manifest.segments)
    lines = []
    for one in findings:
        of = f" ({one.entries:,} entries)" if one.entries else ""
        lines.append(f"{one.file}: {one.problem}: {one.done}{of}")
    lost = sum(one.entries for one in findings if one.done == "quarantined")
    if lost:
        lines.append(
            f"{lost:,} trees are to be measured again; their files are in quarantine/"
        )
    state = f"{len(findings)} findings" if findings else "all as it was written"
    lines.append(f"{store.path}: {trees:,} trees in {segments:,} segments, {state}")
    counts = {"trees": trees, "segments": segments}
    told = [asdict(one) for one in findings]
    document = {"store": str(store.path), **counts, "findings": told}
    put(options, document, lines, "irene.data-check/1")
    return int(bool(findings))


def _merge(options: Merging) -> int:
    from irene.dataset.store import Store
    from irene.dataset.store.store_exchange import merge_stores

    with ExitStack() as stack, working(f"merging into {options.out}"):
        sources, left_out = _sources(options.data, stack)
        out = Store.open(options.out, create=True)
        merged = merge_stores(sources, out, options.keep_apart, options.as_)
        out.pack()
    _say_left_out(options, left_out)
    lines = [f"{old.name} ({old}) is {new}" for old, new in merged.renamed.items()]
    lines.append(
        f"{options.out}: {merged.added:,} trees ({merged.nodes:,} nodes) and "
        f"{merged.failures:,} failures added, {merged.already_there:,} were there "
        "already"
    )
    renamed = [
        {**old._asdict(), "new_name": new} for old, new in merged.renamed.items()
    ]
    told = {**asdict(merged), "renamed": renamed, "left_out": left_out}
    document = {"out": options.out, **told}
    put(options, document, lines, "irene.data-merge/1")
    return 0


def _sources(words: Sequence[str], stack: ExitStack) -> tuple[list[Store], list[str]]:
    """Stores; one in a temporary folder for each that is other data."""
    from irene.dataset.measured_data import data_path
    from irene.dataset.store import Store, is_store
    from irene.dataset.store.store_exchange import import_data

    sources, left_out = [], []
    for word in words:
        path = data_path(word)
        if is_store(path):
            sources.append(Store.open(path))
            continue
        folder = stack.enter_context(TemporaryDirectory(prefix="irene-merge-"))
        store = Store.open(Path(folder) / path.name, create=True)
        left_out += import_data(store, word)[1]
        sources.append(store)
    return sources, left_out


def _export(options: Export) -> int:
    from irene.dataset.store import Store
    from irene.dataset.store.store_exchange import export_store

    only = dict(pair(word, "only", "FIELD=VALUE") for word in options.only)
    with working(f"exporting {options.store}"):
        table = export_store(
            Store.open(options.store),
            Path(options.out),
            options.to,
            options.hardware,
            options.software,
            only,
            options.allow_mixed,
        )
    return _put_written(options, "irene.data-export/1", table)


def _compact(options: InStore) -> int:
    from irene.dataset.store import Store

    with working(f"packing {options.store}"):
        packed = Store.open(options.store).pack()
    document = {"store": options.store, **asdict(packed)}
    line = (
        f"{options.store}: {packed.segments_before:,} segments before, "
        f"{packed.segments_after:,} now"
    )
    put(options, document, [line], "irene.data-compact/1")
    return 0


ACTIONS: dict[str, Action] = {
    "show": ("what is in measured data", Data, _show),
    "convert": ("write it in another format", Conversion, _convert),
    "fetch": ("download public data", Fetching, _fetch),
    "check": (
        "verify every file of a store, set aside what is damaged", InStore, _check,
    ),
    "merge": ("several stores and other data into one", Merging, _merge),
    "export": ("write a machine's trees of a store to a file", Export, _export),
    "compact": ("pack small segments of a store into large ones", InStore, _compact),
}  # fmt: skip
USAGE = f"{{{','.join(ACTIONS)}}} …"
