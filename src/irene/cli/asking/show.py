"""`irene show`: a saved tree on screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from irene.cli.options import TreeView
from irene.cli.output import check_output, put_tree
from irene.parameters import Asked

USAGE = "FILE [options]"
EXAMPLES = """\
examples:
  irene trace gpt2 --out gpt2.json
  irene show gpt2.json --depth 3
  irene show gpt2.json --csv --level module
  irene show gpt2.json --top 10
  irene show gpt2.json --html gpt2.html
"""


@dataclass(frozen=True, kw_only=True)
class Options(TreeView):
    """What the command is asked with.

    Attributes:
        file: A tree saved by irene.
    """

    file: Annotated[str, Asked(word=True, metavar="FILE")]


def run(options: Options) -> int:
    """Read, then print or write."""
    from irene.tree import load

    check_output(options)
    put_tree(load(options.file), options)
    return 0
