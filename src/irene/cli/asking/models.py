"""`irene models`: the catalogue."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.trace.catalogue import Entry

USAGE = "[WORD …] [options]"
EXAMPLES = """\
examples:
  irene models
  irene models llama 70b
  irene models --kind vision
  irene models qwen3 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="all must occur in the name or family"
    )
    parser.add_argument("--kind", help="encoder, decoder, encoder-decoder, vision, …")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Search and print."""
    from irene.analyse.known import models_document
    from irene.cli.output import put_json
    from irene.errors import UsageError
    from irene.trace import catalogue

    kinds = sorted({entry.kind for entry in catalogue.entries().values()})
    if options.kind is not None and options.kind not in kinds:
        raise UsageError(f"no kind {options.kind!r}; there are {', '.join(kinds)}")
    found = [
        entry
        for entry in catalogue.search(" ".join(options.words))
        if options.kind in (None, entry.kind)
    ]
    if options.json:
        put_json(models_document(found))
    elif found:
        _print_table(found)
    else:
        wanted = " ".join(options.words)
        near = ", ".join(catalogue.nearest(wanted)) or "try fewer words"
        raise UsageError(f"no model matches {wanted!r}: {near}")
    return 0


def _print_table(found: Sequence[Entry]) -> None:
    from irene.cli.output import screen
    from irene.human import human
    from irene.show.terminal import columns

    heads = ("<name", "<kind", "parameters", "<Hugging Face id")
    table = columns(*heads, goes=("Hugging Face id",), dim=("Hugging Face id",))
    for entry in found:
        star = "*" if entry.active_params else ""
        table.add_row(
            entry.name, entry.kind, f"{human(entry.params)}{star}", entry.hub_id
        )
    experts = any(entry.active_params for entry in found)
    starred = "; * mixture of experts, fewer are active per token" if experts else ""
    screen().print(table, f"{len(found)} models{starred}", sep="\n")
