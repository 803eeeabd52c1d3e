"""Cards of models: front matter for Hugging Face, a label, and the AI Act's block."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

from irene.human import human, human_energy, human_range
from irene.show.text import plain

if TYPE_CHECKING:
    from irene.analyse.card import Card
    from irene.energy import Energy

WIDTH, LINE, TOP = 560, 20, 64
LONGEST, LONGEST_TITLE = 74, 50
"""Characters that fit into a line, however wide the letters of a font are."""


def card_yaml(card: Card) -> str:
    """The metadata between the lines that a model card begins with."""
    import yaml

    fields = yaml.safe_dump(card.metadata(), sort_keys=False, allow_unicode=True)
    return f"---\n{fields}---\n"


def card_label(card: Card) -> str:
    """An SVG label that needs no font, script or network."""
    first, energy = _energies(card)[0]
    headline = f"{human_energy(energy.joules)} per {first}, {card.source}"
    lines = [
        *(f"{human_range(each)} per {unit}" for unit, each in _energies(card)),
        card.run, card.hardware, f"{card.source} {card.date}", card.command,
    ]  # fmt: skip
    lines = [
        row
        for line in lines
        for row in wrap(plain(line), LONGEST, break_on_hyphens=False)
    ]
    height = TOP + LINE * len(lines) + 12
    rows = "".join(
        f'<text x="16" y="{TOP + LINE * i}" font-size="12">{escape(line)}</text>'
        for i, line in enumerate(lines, 1)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">'
        f"<title>{escape(plain(f'{card.model}: {headline}'))}</title>"
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" '
        'fill="#fff" stroke="#2b7a4b"/><g fill="#16321f">'
        f'<text x="16" y="28" font-size="16" font-weight="bold">{_title(card.model)}'
        f'</text><text x="16" y="54" font-size="20" fill="#2b7a4b">{_title(headline)}'
        f"</text>{rows}</g></svg>\n"
    )


def _energies(card: Card) -> list[tuple[str, Energy]]:
    """Of a token where there are any, and of a sequence, with the words for these."""
    return list(
        zip(
            card.units,
            (card.energy, card.per_sequence)[-len(card.units) :],
            strict=True,
        )
    )


def _title(text: str) -> str:
    text, most = plain(text), LONGEST_TITLE
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")


def card_regulation(card: Card) -> str:
    """A block for the documentation that Annex XI of Regulation (EU) 2024/1689 asks.

    Its section 1, point 2 (d) and (e), asks for the computing resources and the known
    or estimated energy consumption; a value that was never measured is called
    estimated there, with the method.
    """
    kind = "measured" if card.source == "measured" else "estimated"
    energies = [f"{human_range(each)} per {unit}" for unit, each in _energies(card)]
    return "\n".join([
        "### Energy (Regulation (EU) 2024/1689, Annex XI, section 1, point 2)", "",
        f"- Model: {plain(card.model)}, {human(card.params)} parameters",
        f"- Use: inference, {plain(card.run)}",
        f"- Computational resources: {human(card.flops)}FLOP per run on "
        f"{plain(card.hardware)}",
        f"- Energy consumption, {kind}: {', '.join(energies)}",
        f"- Method: {plain(card.energy_source)}; `{plain(card.command)}`, {card.date}",
        "- Training: not covered by this block (`irene plan-training` estimates it, "
        "`irene monitor` measures it)", "",
    ])  # fmt: skip
