"""`irene data`: look into measured data, convert it, merge it, fetch the original."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.data.data_store import STORE_ACTIONS, show_store
from irene.cli.progress import working

if TYPE_CHECKING:
    from irene.dataset.formats.parquet import Provenance
    from irene.dataset.summary import Summary

__all__ = ["configure", "run"]

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene data {show,convert,fetch,check,merge,export,compact} …"
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_show(_add(actions, "show", "what is in measured data"))
    _configure_convert(_add(actions, "convert", "write it in another format"))
    _configure_fetch(_add(actions, "fetch", "download public data"))
    for name, (summary, configure_action, _) in STORE_ACTIONS.items():
        configure_action(_add(actions, name, summary))


def _add(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        prog=f"irene data {name}",
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    # Also known before the action; what is said there must not be forgotten.
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error",
    )
    return parser


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA)


def _configure_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument(
        "--to", choices=("csv", "jsonl", "parquet"), required=True, help="the format"
    )
    parser.add_argument(
        "--out", metavar="PATH", required=True,
        help="folder for csv, otherwise file; what is there is replaced",
    )  # fmt: skip
    parser.add_argument("--name", help="what the data is called (parquet)")
    parser.add_argument("--hardware", help="the machine that was measured (parquet)")
    parser.add_argument("--date", help="when it was measured (parquet)")


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


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    if options.action in STORE_ACTIONS:
        return STORE_ACTIONS[options.action].run(options)
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "show": _show,
        "convert": _convert,
        "fetch": _fetch,
    }
    actions[options.action](options)
    return 0


def _show(options: argparse.Namespace) -> None:
    from irene.dataset import read_data
    from irene.dataset.formats.any_format import data_path
    from irene.dataset.store.layout import is_store
    from irene.dataset.summary import summarise

    if is_store(data_path(options.data)):
        show_store(data_path(options.data), options.json)
        return
    with working(f"reading {options.data}"):
        table, left_out = read_data(options.data)
        summary = summarise(table)
    provenance = _provenance(options.data)
    if options.json:
        _print_json("irene.data/1", _document(summary, provenance, left_out))
    else:
        _print_summary(summary, provenance, left_out)


def _provenance(data: str) -> Provenance | None:
    from irene.dataset.formats.any_format import data_path, format_of
    from irene.dataset.formats.parquet import read_provenance

    path = data_path(data)
    if path.is_dir():
        return None
    return read_provenance(path) if format_of(path) == "parquet" else None


def _document(
    summary: Summary, provenance: Provenance | None, left_out: Sequence[str]
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **asdict(summary),
        "provenance": provenance and asdict(provenance),
        "left_out": list(left_out),
    }


def _print_json(schema: str, document: dict[str, Any]) -> None:
    json.dump({"schema": schema, **document}, sys.stdout, indent=2, allow_nan=False)
    print()


def _print_summary(
    summary: Summary, provenance: Provenance | None, left_out: Sequence[str]
) -> None:
    print(f"{summary.name}: {summary.trees:,} trees, {summary.nodes:,} nodes")
    if provenance is not None:
        facts = ("hardware", "source", "date")
        said = [(name, getattr(provenance, name)) for name in facts]
        print("".join(f"{name}: {value}\n" for name, value in said if value), end="")
    print()
    width = max(len("model"), *(len(entry.model) for entry in summary.models))
    print(f"{'model':{width}}  {'trees':>6}  {'nodes':>8}  batch sizes; lengths")
    for entry in summary.models:
        sizes = f"{_numbers(entry.batch_sizes)}; {_numbers(entry.seq_lens)}"
        print(f"{entry.model:{width}}  {entry.trees:>6,}  {entry.nodes:>8,}  {sizes}")
    print(f"\n{'level':8}{'nodes':>9}{'distinct':>10}  energy of one node")
    for level in summary.levels:
        energies = _range(level.lowest_j, level.highest_j)
        print(f"{level.kind:8}{level.nodes:>9,}{level.distinct:>10,}  {energies}")
    for line in left_out:
        print(f"\nleft out: {line}")


def _numbers(values: Sequence[int]) -> str:
    """Values, or their range where there are many."""
    if len(values) <= 8:
        return ", ".join(map(str, values))
    return f"{values[0]} … {values[-1]} ({len(values)} values)"


def _range(lowest_j: float | None, highest_j: float | None) -> str:
    if lowest_j is None or highest_j is None:
        return "unknown"
    return f"{lowest_j:.4g} … {highest_j:.4g} J"


def _convert(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from irene.dataset import Provenance, read_data, write_data

    out = Path(options.out)
    with working(f"converting {options.data}"):
        table, left_out = read_data(options.data, options.name)
        known = _provenance(options.data) or Provenance(source=options.data)
        given = {"hardware": options.hardware, "date": options.date}
        known = replace(known, **{k: v for k, v in given.items() if v is not None})
        write_data(table, out, options.to, known)
    if options.json:
        document = {"trees": len(table.keys), "nodes": len(table)}
        _print_json(
            "irene.data-convert/1",
            {"out": str(out), "format": options.to, **document, "left_out": left_out},
        )
        return
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(f"{out}: {len(table.keys):,} trees, {len(table):,} nodes")


def _fetch(options: argparse.Namespace) -> None:
    from irene.dataset.fetch import PUBLIC, fetch
    from irene.dataset.places import home_of
    from irene.errors import UsageError

    data = PUBLIC.get(options.data)
    if data is None:
        raise UsageError(f"no data {options.data!r}; there is {', '.join(PUBLIC)}")
    folder = Path(options.out) if options.out else home_of(data.folder)
    files = []
    with _bytes_shown() as progress:
        for file in fetch(data, folder, options.base_url, progress):
            files.append(file)
            state = "downloaded" if file.downloaded else "already here"
            print(
                f"{file.path.name}: {file.size_bytes:,} bytes, {state}", file=sys.stderr
            )
    print(data.about, file=sys.stderr)
    if options.json:
        entries = [
            {
                "name": file.path.name,
                "bytes": file.size_bytes,
                "sha256": file.sha256,
                "downloaded": file.downloaded,
            }
            for file in files
        ]
        _print_json("irene.data-fetch/1", {"folder": str(folder), "files": entries})
    else:
        print(folder)


@contextmanager
def _bytes_shown() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar per file on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done_bytes: int, all_bytes: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=all_bytes)
            bars.update(tasks[name], completed=done_bytes)

        yield show
