"""Putting a ledger on screen, or into JSON, CSV, Parquet, HTML and trace files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from irene.cli.screens.tree_output import check_writable
from irene.errors import UsageError
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from irene.account import Ledger

__all__ = ["check_ledger_output", "put_ledger"]

FILES = ("csv", "parquet", "html", "perfetto")


def check_ledger_output(options: argparse.Namespace) -> None:
    """Refuse what cannot be shown or written, before the work is done."""
    if options.top is not None and options.top < 1:
        raise UsageError(f"--top must be at least 1, got {options.top}")
    for name in FILES:
        if getattr(options, name):
            check_writable(getattr(options, name))


def put_ledger(ledger: Ledger, options: argparse.Namespace) -> None:
    """Print a ledger, and write the files that were asked for.

    Args:
        ledger: The ledger.
        options: Of `add_ledger_options`.
    """
    from irene.tree import load

    costs = load(options.tree) if options.tree else None
    if options.csv:
        _write(options.csv, ledger.to_csv(options.by, options.top))
    if options.parquet:
        ledger.to_parquet(options.parquet)
        _say_written(options.parquet)
    if options.html:
        _write(options.html, ledger.to_html(costs))
    if options.perfetto:
        ledger.to_perfetto(options.perfetto)
        _say_written(options.perfetto)
    for note in ledger.notes:
        print(f"irene account: {note}", file=sys.stderr)
    if options.json:
        sys.stdout.write(ledger.to_json(costs) + "\n")
    elif not any(getattr(options, name) for name in FILES):
        from irene.cli.running.ledger_screen import print_ledger

        print_ledger(ledger, options, costs)


def _write(path: str, text: str) -> None:
    with whole_file(Path(path), make_folder=False) as file:
        file.write(text.encode("utf-8"))
    _say_written(path)


def _say_written(path: str) -> None:
    print(f"wrote {path}", file=sys.stderr)
