"""`irene show`: a saved tree on screen."""

from __future__ import annotations

import argparse

from irene.cli.options import add_output_options, add_view_options

__all__ = ["configure", "run"]

USAGE = "FILE [options]"
EXAMPLES = """\
examples:
  irene trace gpt2 --out gpt2.json
  irene show gpt2.json --depth 3
  irene show gpt2.json --csv --level module
  irene show gpt2.json --top 10
  irene show gpt2.json --html gpt2.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("file", metavar="FILE", help="a tree saved by irene")
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Read, then print or write."""
    from irene.cli.output import check_output, put_tree
    from irene.tree import load

    check_output(options)
    put_tree(load(options.file), options)
    return 0
