"""`irene card`: a model's energy for its card, as a label, and for regulators."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from irene.cli.asking.answering import (
    add_question,
    answered,
    check_answer,
    question_of,
)
from irene.cli.options import OUTPUT, add_table, chosen
from irene.cli.output import write_text
from irene.parameters import Asked

USAGE = "MODEL|TREE.json [options]"
EXAMPLES = """\
MODEL may also be a saved tree: what was measured says so.

examples:
  irene card bert-base-uncased -b 8 -s 128 --region FR
  irene card measured.json --out energy.svg
"""


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a card is written.

    Attributes:
        json: One JSON document.
        as_: Metadata of a Hugging Face card, an SVG label, or a block for Annex XI of
            the AI Act; by default metadata, a label where the file is an .svg.
        out: Write to a file.
    """

    json: Annotated[bool, Asked(either="form", group=OUTPUT)] = False
    as_: Annotated[
        Literal["metadata", "label", "annex"] | None, Asked(either="form", group=OUTPUT)
    ] = None
    out: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    from irene.questions import AskCard

    add_question(parser, AskCard)
    add_table(parser, Form)


def run(options: argparse.Namespace) -> int:
    """Predict or read, then write the card."""
    import json

    from irene.questions import AskCard
    from irene.show import cards

    check_answer(options)
    form = chosen(Form, options)
    question = question_of(options, AskCard)
    card = answered(options, question)
    forms = {
        "metadata": cards.card_yaml, "label": cards.card_label,
        "annex": cards.card_regulation,
    }  # fmt: skip
    is_picture = (form.out or "").lower().endswith(".svg")
    text = forms[form.as_ or ("label" if is_picture else "metadata")](card)
    if form.json:
        text = json.dumps(question.document(card), allow_nan=False) + "\n"
    write_text(form.out, text) if form.out else sys.stdout.write(text)
    return 0
