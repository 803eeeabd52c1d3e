"""`irene models`: the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from irene.cli.output import put_json, screen
from irene.errors import UsageError
from irene.human import human
from irene.parameters import Asked
from irene.show.terminal import columns

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


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        words: All must occur in the name or family.
        kind: Encoder, decoder, encoder-decoder, vision, ….
        json: One JSON document.
    """

    words: Annotated[tuple[str, ...], Asked(word=True, metavar="WORD")] = ()
    kind: str | None = None
    json: bool = False


def run(options: Options) -> int:
    """Search and print."""
    from irene.analyse.listings import models_document
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
