"""Actions of `irene data` on a store: check, merge, export, compact, show."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from irene.cli.progress import working

if TYPE_CHECKING:
    from irene.dataset.store import Store

__all__ = ["STORE_ACTIONS", "Action", "show_store"]


class Action(NamedTuple):
    """One action.

    Attributes:
        summary: What it does, in words.
        configure: Adds its options.
        run: Does it; the exit code.
    """

    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _put_json(schema: str, document: dict[str, Any]) -> None:
    json.dump({"schema": schema, **document}, sys.stdout, indent=2, allow_nan=False)
    print()


def _configure_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder of `irene collect`")


def _check(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from irene.dataset.store import Store
    from irene.dataset.store.layout import opened
    from irene.dataset.store.migration import migrate

    path = Path(options.store)
    migrate(path)
    # Not `Store.open`, which would put things in order without a word.
    store = Store(opened(path))
    with working(f"checking {path}"):
        findings = store.check()
    trees = sum(entry.state == "measured" for entry in store.entries())
    counts = {"trees": trees, "segments": len(store.manifest.segments)}
    if options.json:
        told = [asdict(one) for one in findings]
        document = {"store": str(path), **counts, "findings": told}
        _put_json("irene.data-check/1", document)
        return int(bool(findings))
    for one in findings:
        of = f" ({one.entries:,} entries)" if one.entries else ""
        print(f"{one.file}: {one.problem}: {one.done}{of}")
    lost = sum(one.entries for one in findings if one.done == "quarantined")
    if lost:
        print(
            f"{lost:,} trees are to be measured again; their files are in quarantine/"
        )
    state = f"{len(findings)} findings" if findings else "all as it was written"
    print(f"{path}: {trees:,} trees in {counts['segments']:,} segments, {state}")
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
    from irene.dataset.store.merging import merge_stores
    from irene.dataset.store.packing import pack

    with ExitStack() as stack, working(f"merging into {options.out}"):
        sources, left_out = _sources(options.data, stack)
        out = Store.open(options.out, create=True)
        merged = merge_stores(sources, out, options.keep_apart, options.as_name)
        pack(out)
    renamed = [
        {**machine._asdict(), "new_name": name}
        for machine, name in merged.renamed.items()
    ]
    if options.json:
        document = {
            "out": options.out,
            "added": merged.added,
            "nodes": merged.nodes,
            "failures": merged.failures,
            "already_there": merged.there,
            "renamed": renamed,
            "left_out": left_out,
        }
        _put_json("irene.data-merge/1", document)
        return 0
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    for one in renamed:
        what = one["description"] or "not described"
        print(f"{one['name']} ({what}, covers {one['covers']}) is {one['new_name']}")
    print(
        f"{options.out}: {merged.added:,} trees ({merged.nodes:,} nodes) and "
        f"{merged.failures:,} failures added, {merged.there:,} were there already"
    )
    return 0


def _sources(words: Sequence[str], stack: ExitStack) -> tuple[list[Store], list[str]]:
    """Stores; one in a temporary folder for each that is other data."""
    from tempfile import TemporaryDirectory

    from irene.dataset.formats.any_format import data_path
    from irene.dataset.store import Store, is_store
    from irene.dataset.store.importing import import_data

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
    parser.add_argument(
        "--to", choices=("csv", "jsonl", "parquet"), required=True, help="the format"
    )
    parser.add_argument(
        "--out", metavar="PATH", required=True,
        help="folder for csv, otherwise file; what is there is replaced",
    )  # fmt: skip
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
    from irene.dataset.store.exporting import export_store

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
    if options.json:
        document = {"out": str(out), "format": options.to, **counts}
        _put_json("irene.data-export/1", document)
    else:
        print(f"{out}: {counts['trees']:,} trees, {counts['nodes']:,} nodes")
    return 0


def _pair(word: str) -> tuple[str, str]:
    from irene.errors import UsageError

    name, is_pair, value = word.partition("=")
    if not (name and is_pair):
        raise UsageError(f"--only takes FIELD=VALUE, got {word!r}")
    return name, value


def _compact(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from irene.dataset.store import Store
    from irene.dataset.store.packing import pack

    with working(f"packing {options.store}"):
        packed = pack(Store.open(options.store))
    if options.json:
        _put_json("irene.data-compact/1", {"store": options.store, **asdict(packed)})
    else:
        print(
            f"{options.store}: {packed.segments_before:,} segments before, "
            f"{packed.segments_after:,} now"
        )
    return 0


def show_store(path: Path, as_json: bool) -> None:
    """Print what is in a store.

    Args:
        path: The folder.
        as_json: Whether to print one JSON document.
    """
    from dataclasses import asdict

    from irene.cli.data.data_store_screen import store_lines
    from irene.dataset.store import Store
    from irene.dataset.store.summary import summarise_store

    with working(f"reading {path}"):
        summary = summarise_store(Store.open(path))
    if as_json:
        _put_json("irene.data-store/1", asdict(summary))
    else:
        print("\n".join(store_lines(summary)))


STORE_ACTIONS = {
    "check": Action(
        "verify every file of a store, set aside what is damaged",
        _configure_store,
        _check,
    ),
    "merge": Action("several stores and other data into one", _configure_merge, _merge),
    "export": Action(
        "write a machine's trees of a store to a file", _configure_export, _export
    ),
    "compact": Action(
        "pack small segments of a store into large ones", _configure_store, _compact
    ),
}
