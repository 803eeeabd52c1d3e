"""Putting a tree on screen, or into a JSON or CSV file."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from pathlib import Path

from irene.errors import UsageError
from irene.tree import ModelTree, Node

__all__ = ["check_output", "csv_text", "put_tree"]

CSV_COLUMNS = (
    "path", "kind", "op", "call", "count", "instances", "dtype", "inputs", "outputs",
    "params", "flops", "bytes_read", "bytes_written", "energy_j", "own_j",
)  # fmt: skip


def check_output(options: argparse.Namespace) -> None:
    """Refuse an output file that cannot be written, before the work is done."""
    if options.depth is not None and options.depth < 0:
        raise UsageError(f"--depth must be at least 0, got {options.depth}")
    if options.out is None:
        return
    folder = Path(options.out).absolute().parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {options.out}: no folder {folder}")
    if Path(options.out).is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {options.out}")


def put_tree(tree: ModelTree, options: argparse.Namespace) -> None:
    """Print or write a tree as the options say."""
    as_csv = options.csv or (options.out or "").endswith(".csv")
    if not (options.json or as_csv or options.out):
        from irene.cli.tree_screen import print_tree

        print_tree(tree, options)
        return
    shown = tree.at_level(options.level) if as_csv or not options.out else tree
    if not options.unfold:
        shown = shown.fold()
    if as_csv:
        _put_text(csv_text(shown), options.out)
    elif options.out:
        shown.save(options.out)
    else:
        sys.stdout.write(shown.to_json() + "\n")
    if options.out:
        print(f"wrote {options.out}", file=sys.stderr)


def csv_text(tree: ModelTree) -> str:
    """One row per node; costs are of one instance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for node in tree.nodes():
        writer.writerow(_csv_row(tree, node))
    return text.getvalue()


def _csv_row(tree: ModelTree, node: Node) -> list[object]:
    energy = node.energy
    return [
        node.path, node.kind, node.op, node.call, node.count,
        int(tree.multiplicity[node.row]), node.dtype,
        _shapes(node.inputs), _shapes(node.outputs),
        node.params, node.flops, node.bytes_read, node.bytes_written,
        "" if energy is None else energy.joules,
        "" if energy is None else node.own_j,
    ]  # fmt: skip


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _put_text(text: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
