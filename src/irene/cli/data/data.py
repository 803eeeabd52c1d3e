"""`irene data`: look into measured data, convert it, fetch it, look after a store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from irene.cli.output import put
from irene.cli.progress import progress_bar, working

if TYPE_CHECKING:
    from irene.dataset import Provenance
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
DATA = (
    "store, folder of 2021 CSV files, JSONL or Parquet file, or a name such as "
    "irene-pc1"
)

Action = tuple[
    str,
    Callable[[argparse.ArgumentParser], None],
    Callable[[argparse.Namespace], int],
]
"""What it does, in words; what adds its options; what does it, with the exit code."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, configure_action, _) in ACTIONS.items():
        one = actions.add_parser(
            name,
            prog=f"irene data {name}",
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--json", action="store_true", help="one JSON document")
        # Also known before the action; what is said there must not be forgotten.
        one.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )
        configure_action(one)


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    _, _, run_action = ACTIONS[options.action]
    return run_action(options)


def _say_left_out(options: argparse.Namespace, left_out: Sequence[str]) -> None:
    for line in () if options.json else left_out:
        print(f"left out: {line}", file=sys.stderr)


# Data of any format -----------------------------------------------------------


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA)


def _show(options: argparse.Namespace) -> int:
    from irene.cli.data.data_text import store_lines, table_lines
    from irene.dataset import read_data
    from irene.dataset.measured_data import data_path
    from irene.dataset.store import Store, is_store
    from irene.dataset.summaries import summarise, summarise_store

    path = data_path(options.data)
    if is_store(path):
        with working(f"reading {path}"):
            store = summarise_store(Store.open(path))
        put(options, "irene.data-store/1", asdict(store), store_lines(store))
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
    lines = table_lines(summary, provenance, left_out)
    put(options, "irene.data/1", document, lines)
    return 0


def _provenance(path: Path) -> Provenance | None:
    from irene.dataset import read_provenance
    from irene.dataset.measured_data import format_of

    return read_provenance(path) if format_of(path) == "parquet" else None


def _configure_written(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", choices=("csv", "jsonl", "parquet"), required=True, help="the format"
    )
    parser.add_argument(
        "--out", metavar="PATH", required=True,
        help="folder for csv, otherwise file; what is there is replaced",
    )  # fmt: skip


def _configure_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA)
    _configure_written(parser)
    parser.add_argument("--name", help="what the data is called (parquet)")
    parser.add_argument("--hardware", help="the machine that was measured (parquet)")
    parser.add_argument("--date", help="when it was measured (parquet)")


def _convert(options: argparse.Namespace) -> int:
    from irene.dataset import Provenance, read_data, write_data
    from irene.dataset.measured_data import data_path

    out = Path(options.out)
    with working(f"converting {options.data}"):
        table, left_out = read_data(options.data, options.name)
        known = _provenance(data_path(options.data)) or Provenance(source=options.data)
        given = {"hardware": options.hardware, "date": options.date}
        known = replace(known, **{k: v for k, v in given.items() if v is not None})
        write_data(table, out, options.to, known)
    _say_left_out(options, left_out)
    counts = {"trees": len(table.keys), "nodes": len(table)}
    document = {"out": str(out), "format": options.to, **counts, "left_out": left_out}
    line = f"{out}: {len(table.keys):,} trees, {len(table):,} nodes"
    put(options, "irene.data-convert/1", document, [line])
    return 0


def _configure_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="NAME", help="irene-2021")
    parser.add_argument(
        "--out", metavar="DIR",
        help="folder for the files (default: IRENE_DATA_DIR/irene-pc1, "
        "or the user's cache)",
    )  # fmt: skip
    parser.add_argument(
        "--base-url", metavar="URL", help="another place that has the same files"
    )


def _fetch(options: argparse.Namespace) -> int:
    from irene.dataset.fetch import PUBLIC, fetch
    from irene.dataset.measured_data import home_of
    from irene.errors import UsageError

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
            print(f"{file.name}: {file.size_bytes:,} bytes, {state}", file=sys.stderr)
    print(data.about, file=sys.stderr)
    document = {"folder": str(folder), "files": files}
    put(options, "irene.data-fetch/1", document, [str(folder)])
    return 0


# Stores -----------------------------------------------------------------------


def _configure_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder of `irene collect`")


def _check(options: argparse.Namespace) -> int:
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
    put(options, "irene.data-check/1", document, lines)
    return int(bool(findings))


def _configure_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="DATA", nargs="+", help="stores, and data of any other format"
    )
    parser.add_argument(
        "--out", metavar="STORE", required=True,
        help="store that they are added to; made if there is none",
    )  # fmt: skip
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--keep-apart", action="store_true",
        help="machines of one name that differ are called NAME@HOST",
    )  # fmt: skip
    group.add_argument(
        "--as", dest="as_name", metavar="NAME",
        help="machines of one name that differ are one, called NAME",
    )  # fmt: skip


def _merge(options: argparse.Namespace) -> int:
    from irene.dataset.store import Store
    from irene.dataset.store.store_merging import merge_stores

    with ExitStack() as stack, working(f"merging into {options.out}"):
        sources, left_out = _sources(options.data, stack)
        out = Store.open(options.out, create=True)
        merged = merge_stores(sources, out, options.keep_apart, options.as_name)
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
    put(options, "irene.data-merge/1", document, lines)
    return 0


def _sources(words: Sequence[str], stack: ExitStack) -> tuple[list[Store], list[str]]:
    """Stores; one in a temporary folder for each that is other data."""
    from tempfile import TemporaryDirectory

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


def _configure_export(parser: argparse.ArgumentParser) -> None:
    _configure_store(parser)
    _configure_written(parser)
    parser.add_argument("--hardware", metavar="NAME", help="trees of this machine")
    parser.add_argument(
        "--software", metavar="TEXT",
        help="trees of this software, as `irene data show` names it",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="FIELD=VALUE", nargs="+", default=[],
        help="trees of runs with these values, such as dtype=fp32",
    )  # fmt: skip
    parser.add_argument(
        "--allow-mixed", action="store_true", help="mix trees of different software"
    )


def _export(options: argparse.Namespace) -> int:
    from irene.dataset.store import Store
    from irene.dataset.store.store_exchange import export_store

    out = Path(options.out)
    only = dict(_pair(word) for word in options.only)
    with working(f"exporting {options.store}"):
        table = export_store(
            Store.open(options.store),
            out,
            options.to,
            options.hardware,
            options.software,
            only,
            options.allow_mixed,
        )
    counts = {"trees": len(table.keys), "nodes": len(table)}
    document = {"out": str(out), "format": options.to, **counts}
    line = f"{out}: {len(table.keys):,} trees, {len(table):,} nodes"
    put(options, "irene.data-export/1", document, [line])
    return 0


def _pair(word: str) -> tuple[str, str]:
    from irene.errors import UsageError

    name, is_pair, value = word.partition("=")
    if not (name and is_pair):
        raise UsageError(f"--only takes FIELD=VALUE, got {word!r}")
    return name, value


def _compact(options: argparse.Namespace) -> int:
    from irene.dataset.store import Store

    with working(f"packing {options.store}"):
        packed = Store.open(options.store).pack()
    document = {"store": options.store, **asdict(packed)}
    line = (
        f"{options.store}: {packed.segments_before:,} segments before, "
        f"{packed.segments_after:,} now"
    )
    put(options, "irene.data-compact/1", document, [line])
    return 0


ACTIONS: dict[str, Action] = {
    "show": ("what is in measured data", _configure_show, _show),
    "convert": ("write it in another format", _configure_convert, _convert),
    "fetch": ("download public data", _configure_fetch, _fetch),
    "check": (
        "verify every file of a store, set aside what is damaged",
        _configure_store,
        _check,
    ),
    "merge": ("several stores and other data into one", _configure_merge, _merge),
    "export": (
        "write a machine's trees of a store to a file",
        _configure_export,
        _export,
    ),
    "compact": (
        "pack small segments of a store into large ones",
        _configure_store,
        _compact,
    ),
}
USAGE = f"{{{','.join(ACTIONS)}}} …"
