"""Putting trees, ledgers and notes on screen, or into files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError
from irene.show.text import plain_lines
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from irene.account import Ledger
    from irene.cli.options import TreeView
    from irene.tree import ModelTree

UNBOUNDED = 10_000
"""Characters per line where no terminal cuts them."""
LEDGER_FILES = ("csv", "parquet", "html", "perfetto")


def screen(*, stderr: bool = False) -> Console:
    """Standard output; off a terminal nothing is cut, unless `COLUMNS` is set."""
    from irene.show.fitted import Screen

    console = Screen(stderr=stderr)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Screen(stderr=stderr, width=UNBOUNDED)


def put_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()


def put(
    options: Any,
    document: Mapping[str, Any],
    parts: Iterable[RenderableType],
    schema: str = "",
) -> None:
    """One document with `--json`, else lines and tables for people.

    Args:
        options: Whose `json` decides.
        document: With its own schema, or without.
        parts: The same for people.
        schema: Of a document that has none.
    """
    if options.json:
        put_json({"schema": schema, **document})
    else:
        put_parts(parts)


def put_parts(parts: Iterable[RenderableType], *, stderr: bool = False) -> None:
    """Lines as they are, for they may be copied; tables as they fit."""
    for part in parts:
        if isinstance(part, str):
            print(plain_lines(part), file=sys.stderr if stderr else sys.stdout)
        else:
            screen(stderr=stderr).print(part)


def put_screen(parts: Iterable[RenderableType]) -> None:
    """Headings, tables and notes, as they fit the screen."""
    console = screen()
    for part in parts:
        console.print(part)


def check_files(*files: str | None, plot: str | None = None) -> None:
    """Refuse what cannot be drawn or written, before the work is done."""
    if plot:
        from irene.show.picture.picture import check_drawable

        check_drawable(Path(plot))
    for file in filter(None, (*files, plot)):
        folder = Path(file).absolute().parent
        if not folder.is_dir():
            raise UsageError(f"cannot write {file}: no folder {folder}")
        if Path(file).is_dir() or not os.access(folder, os.W_OK):
            raise UsageError(f"cannot write {file}")


def write_text(file: str, text: str) -> None:
    """Write a file, whole or not at all, and say so."""
    with whole_file(Path(file), make_folder=False) as out:
        out.write(text.encode("utf-8"))
    say_written(file)


def put_text(text: str, file: str | None) -> None:
    """Write a text to a file, or on standard output where none is named."""
    write_text(file, text) if file else sys.stdout.write(text)


def say(words: str) -> None:
    """Tell something on standard error, at once."""
    print(plain_lines(words), file=sys.stderr, flush=True)


def say_written(file: str | Path) -> None:
    """Tell that a file was written."""
    say(f"wrote {file}")


# Trees ------------------------------------------------------------------------


def check_output(options: TreeView) -> None:
    """Refuse what cannot be shown or written, before the work is done."""
    if options.top is not None and options.sort == "params":
        raise UsageError(
            "--top adds up costs, and parameters may be shared between nodes: "
            "use --sort energy, flops or bytes"
        )
    check_files(options.out, options.html, plot=options.plot)


def put_tree(tree: ModelTree, options: TreeView) -> None:
    """Print or write a tree as the options say; a page comes beside the rest."""

    def folded(chosen: ModelTree) -> ModelTree:
        return chosen if options.unfold else chosen.fold()

    if options.html:
        write_text(options.html, tree.to_html())
    if options.plot:
        for path in tree.picture(options.plot_as, options.depth).save(options.plot):
            say_written(path)
    if options.csv or (options.out or "").endswith(".csv"):
        from irene.tree.document import tree_csv

        put_text(tree_csv(folded(tree.at_level(options.level))), options.out)
    elif options.out:
        folded(tree).save(options.out)
        say_written(options.out)
    elif options.json:
        sys.stdout.write(folded(tree.at_level(options.level)).to_json() + "\n")
    elif not options.html:
        from irene.show.tree_terminal import tree_screen

        shown = folded(tree.at_level(options.level))
        parts = tree_screen(
            tree, shown, everything=options.all, depth=options.depth,
            sort=options.sort, top=options.top,
        )  # fmt: skip
        put_screen(parts)


# Ledgers ----------------------------------------------------------------------


def put_ledger(ledger: Ledger, options: Any) -> None:
    """Print a ledger, and write the files that were asked for."""
    from irene.tree import load

    costs = load(options.tree) if options.tree else None
    if options.csv:
        write_text(options.csv, ledger.to_csv(options.by, options.top))
    if options.parquet:
        ledger.to_parquet(options.parquet)
        say_written(options.parquet)
    if options.html:
        write_text(options.html, ledger.to_html(costs))
    if options.perfetto:
        ledger.to_perfetto(options.perfetto)
        say_written(options.perfetto)
    for note in ledger.notes:
        say(f"irene account: {note}")
    if options.json:
        sys.stdout.write(ledger.to_json(costs) + "\n")
    elif not any(getattr(options, name) for name in LEDGER_FILES):
        from irene.show.ledger_terminal import ledger_screen

        put_screen(ledger_screen(ledger, options.by, options.top, costs))
