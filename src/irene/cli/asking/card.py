"""`irene card`: a model's energy for its card, as a label, and for regulators."""

from __future__ import annotations

import argparse
import sys

from irene.cli.asking.answering import (
    add_question,
    answered,
    check_answer,
    question_of,
)

USAGE = "MODEL|TREE.json [options]"
EXAMPLES = """\
MODEL may also be a saved tree: what was measured says so.

examples:
  irene card bert-base-uncased -b 8 -s 128 --region FR
  irene card measured.json --as label > energy.svg
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    from irene.questions import AskCard

    add_question(parser, AskCard)
    group = parser.add_argument_group("the output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument(
        "--as", dest="form", choices=("metadata", "label", "annex"), default="metadata",
        help="metadata of a Hugging Face card (default), an SVG label, or a block for "
        "Annex XI of the AI Act",
    )  # fmt: skip
    group.add_argument("--out", metavar="FILE", help="write to a file")


def run(options: argparse.Namespace) -> int:
    """Predict or read, then write the card."""
    import json

    from irene.cli.output import write_text
    from irene.questions import AskCard
    from irene.show import cards

    check_answer(options)
    question = question_of(options, AskCard)
    card = answered(options, question)
    forms = {
        "metadata": cards.card_yaml, "label": cards.card_label,
        "annex": cards.card_regulation,
    }  # fmt: skip
    text = forms[options.form](card)
    if options.json:
        text = json.dumps(question.document(card), allow_nan=False) + "\n"
    write_text(options.out, text) if options.out else sys.stdout.write(text)
    return 0
