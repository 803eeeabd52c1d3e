"""`irene card`: a model's energy for its card, as a label, and for regulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from irene.cli.asking.answering import Asking, json_text
from irene.cli.options import OUTPUT
from irene.cli.output import check_files, put_text
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.analyse.card import Card
    from irene.questions import Question


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


def _put(question: Question[Card], card: Card, form: Form) -> bool:
    from irene.show import cards

    forms = {
        "metadata": cards.card_yaml, "label": cards.card_label,
        "annex": cards.card_regulation,
    }  # fmt: skip
    is_picture = (form.out or "").lower().endswith(".svg")
    write = forms[form.as_ or ("label" if is_picture else "metadata")]
    put_text(json_text(question, card) if form.json else write(card), form.out)
    return True


COMMANDS = {
    "card": Asking(
        question="card",
        USAGE="MODEL|TREE.json [options]",
        EXAMPLES="""\
MODEL may also be a saved tree: what was measured says so.

examples:
  irene card bert-base-uncased -b 8 -s 128 --region FR
  irene card measured.json --out energy.svg
""",
        form=Form,
        check=lambda form: check_files(form.out),
        put=_put,
    )
}
