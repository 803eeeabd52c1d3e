"""Putting a tree on screen, or into a JSON, CSV or HTML file."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
from pathlib import Path

from irene.errors import UsageError
from irene.tree import ModelTree, Node

__all__ = ["check_output", "check_writable", "csv_text", "put_tree"]

CSV_COLUMNS = (
    "path", "kind", "op", "call", "count", "instances", "dtype", "inputs", "outputs",
    "params", "flops", "bytes_read", "bytes_written", "energy_j", "low_j",
    "high_j", "source", "own_j", "share",
)  # fmt: skip


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
        from irene.picture.picture import check_drawable

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
        from irene.cli.tree_screen import print_tree

        print_tree(tree, options)


def _folded(tree: ModelTree, options: argparse.Namespace) -> ModelTree:
    return tree if options.unfold else tree.fold()


def csv_text(tree: ModelTree) -> str:
    """One row per node; costs are of one instance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*CSV_COLUMNS, *tree.features))
    for node in tree.nodes():
        known = node.features
        measured = [known.get(name, "") for name in tree.features]
        writer.writerow([*_csv_row(tree, node), *measured])
    return text.getvalue()


def _csv_row(tree: ModelTree, node: Node) -> list[object]:
    energy = node.energy
    return [
        node.path, node.kind, node.op, node.call, node.count,
        int(tree.multiplicity[node.row]), node.dtype,
        _shapes(node.inputs), _shapes(node.outputs),
        node.params, node.flops, node.bytes_read, node.bytes_written,
        *(_energy_cells(tree, node) if energy else [""] * 6),
    ]  # fmt: skip


def _energy_cells(tree: ModelTree, node: Node) -> list[object]:
    energy, total = node.energy, tree.energy_of(0)
    assert energy is not None
    times = int(tree.multiplicity[node.row])
    own = node.own_j
    return [
        energy.joules, energy.low, energy.high, energy.source,
        "" if own is None or math.isnan(own) else own,
        energy.joules * times / total.joules if total and total.joules else "",
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
    _say_written(out)


def _say_written(out: str) -> None:
    print(f"wrote {out}", file=sys.stderr)
