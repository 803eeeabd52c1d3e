"""Cards of models: front matter for Hugging Face, a label, and the AI Act's block."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from irene.human import human_energy, human_range
from irene.show.page.shell import rendered
from irene.show.text import plain

if TYPE_CHECKING:
    from irene.analyse.card import Card
    from irene.energy import Energy

LONGEST = 74
"""Characters that fit into a line, however wide the letters of a font are."""


def card_yaml(card: Card) -> str:
    """The metadata between the lines that a model card begins with."""
    import yaml

    fields = yaml.safe_dump(card.metadata(), sort_keys=False, allow_unicode=True)
    return f"---\n{fields}---\n"


def card_label(card: Card) -> str:
    """An SVG label that needs no font, script or network."""
    unit, energy = _energies(card)[0]
    told = [card.run, card.hardware, f"{card.source} {card.date}", card.command]
    lines = [
        row
        for line in (*_energy_words(card), *told)
        for row in wrap(plain(line), LONGEST, break_on_hyphens=False)
    ]
    headline = f"{human_energy(energy.joules)} per {unit}, {card.source}"
    return rendered("label.svg", card=card, headline=headline, lines=lines)


def _energies(card: Card) -> list[tuple[str, Energy]]:
    """Of a token where there are any, and of a sequence, with the words for these."""
    energies = (card.energy, card.per_sequence)[-len(card.units) :]
    return list(zip(card.units, energies, strict=True))


def _energy_words(card: Card) -> list[str]:
    return [f"{human_range(each)} per {unit}" for unit, each in _energies(card)]


def card_regulation(card: Card) -> str:
    """A block for the documentation that Annex XI of Regulation (EU) 2024/1689 asks.

    Its section 1, point 2 (d) and (e), asks for the computing resources and the known
    or estimated energy consumption; a value that was never measured is called
    estimated there, with the method.
    """
    return rendered("annex.md", card=card, energies=_energy_words(card))
