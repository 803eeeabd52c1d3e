"""Putting a tree on screen, or into a JSON, CSV or HTML file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from irene.errors import UsageError
from irene.show.tree_csv import csv_text
from irene.tree import ModelTree

__all__ = ["check_output", "check_writable", "put_tree"]


def check_output(options: argparse.Namespace) -> None:
    """Refuse what cannot be shown or written, before the work is done."""
    if options.depth is not None and options.depth < 0:
        raise UsageError(f"--depth must be at least 0, got {options.depth}")
    if options.top is not None:
        if options.top < 1:
            raise UsageError(f"--top must be at least 1, got {options.top}")
        if options.sort == "params":
            raise UsageError(
                "--top adds up costs, and parameters may be shared between nodes: "
                "use --sort energy, flops or bytes"
            )
    if options.plot:
        from irene.show.picture.picture import check_drawable

        check_drawable(Path(options.plot))
    for file in filter(None, (options.out, options.html, options.plot)):
        check_writable(file)


def check_writable(file: str) -> None:
    """Refuse a file whose folder is missing or closed, before the work is done."""
    folder = Path(file).absolute().parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {file}: no folder {folder}")
    if Path(file).is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {file}")


def put_tree(tree: ModelTree, options: argparse.Namespace) -> None:
    """Print or write a tree as the options say; a page comes beside the rest."""
    if options.html:
        _put_text(tree.to_html(), options.html)
    if options.plot:
        for path in tree.picture(options.plot_as, options.depth).save(options.plot):
            _say_written(str(path))
    if options.csv or (options.out or "").endswith(".csv"):
        _put_text(csv_text(_folded(tree.at_level(options.level), options)), options.out)
    elif options.out:
        _folded(tree, options).save(options.out)
        _say_written(options.out)
    elif options.json:
        shown = _folded(tree.at_level(options.level), options)
        sys.stdout.write(shown.to_json() + "\n")
    elif not options.html:
        from irene.cli.screens.tree_screen import print_tree

        print_tree(tree, options)


def _folded(tree: ModelTree, options: argparse.Namespace) -> ModelTree:
    return tree if options.unfold else tree.fold()


def _put_text(text: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    _say_written(out)


def _say_written(out: str) -> None:
    print(f"wrote {out}", file=sys.stderr)
