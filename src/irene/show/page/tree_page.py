"""A tree as one page: no network, no files beside it, nothing but text is trusted."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from irene import __version__
from irene.show.headline import (
    energy_per_unit,
    energy_source,
    is_warning,
    model_name,
    run_sizes,
)
from irene.show.page.tree_tables import operator_section, tree_section
from irene.show.picture.icicle import STEPS, icicle
from irene.show.text import human, human_energy, human_range
from irene.show.view import MEASURES, main_key
from irene.tree.model_tree import ModelTree

__all__ = [
    "card_items",
    "icicle_section",
    "notes_list",
    "page_part",
    "provenance_details",
    "shown_tree",
    "to_html",
]

MOST_ROWS = 4000
"""A tree with more rows is cut to a higher level, so that a browser stays quick."""


def to_html(tree: ModelTree, title: str | None = None) -> str:
    """One self-contained page.

    Args:
        tree: Any tree; shares are of energy, or of FLOPs if it carries none.
        title: Heading of the page; the model's name if None.
    """
    style, script = page_part("page.css"), page_part("page.js")
    shown, level = shown_tree(tree)
    heading = title or model_name(tree)
    page = (
        f"<!DOCTYPE html>\n{_head(tree, heading, style, script)}<body>\n"
        f"<header>\n{_header(tree, heading)}</header>\n<main>\n"
        f"{icicle_section(shown)}{tree_section(shown, level)}{operator_section(tree)}"
        '</main>\n<div id="details" role="status" hidden></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
    # A name from a file may hold half a character, which no file could.
    return page.encode("utf-8", "replace").decode("utf-8")


def _head(tree: ModelTree, heading: str, style: str, script: str) -> str:
    total = tree.energy_of(0)
    summary = human_range(total) if total else human(tree.root.flops, "FLOP")
    policy = _policy(style, script)
    return (
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(heading)}: {summary}</title>\n"
        f"<style>{style}</style>\n</head>\n"
    )


def page_part(name: str) -> str:
    """The style (`page.css`) or script (`page.js`) of the page."""
    return files("irene.show.page").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Only this style and this script; nothing is loaded from anywhere."""

    def source(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def shown_tree(tree: ModelTree) -> tuple[ModelTree, str]:
    """The tree as it is shown, and the deepest kind in it."""
    for level in ("math", "ml", "module"):
        shown = tree.at_level(level).fold()
        if len(shown) <= MOST_ROWS:
            break
    return shown, level


# The top of the page ----------------------------------------------------------


def _header(tree: ModelTree, heading: str) -> str:
    sizes = run_sizes(tree.spec) if tree.spec else []
    name = [] if heading == model_name(tree) else [model_name(tree)]
    where = energy_source(tree) or "costs only: this tree carries no energy"
    if tree.hardware and tree.hardware.description:
        where += f" · {tree.hardware.description}"
    return (
        f"<h1>{escape(heading)}</h1>\n"
        f"<p>{escape(' · '.join([*name, *sizes]))}</p>\n"
        f'<p class="soft">{escape(where)}</p>\n'
        f'<ul class="cards">{card_items(tree)}</ul>\n'
        f"{notes_list(tree)}{provenance_details(tree)}"
    )


def card_items(tree: ModelTree) -> str:
    """What the whole costs, as items of a list."""
    total, energy = tree.total(), tree.energy_of(0)
    cards = [
        (human(total.flops, "FLOP"), "computed"),
        (human(total.bytes, "B"), "moved"),
        (human(tree.root.params), "parameters"),
        (f"{tree.node_count:,}", "nodes"),
    ]
    rates = [(human_energy(j), f"per {unit}") for unit, j in energy_per_unit(tree)]
    items = "".join(
        f"<li><b>{escape(value)}</b><span>{escape(what)}</span></li>"
        for value, what in [*rates, *cards]
    )
    if energy is None:
        return items
    return (
        f'<li class="total"><b>{escape(human_range(energy))}</b>'
        f"<span>energy of one run</span></li>{items}"
    )


def notes_list(tree: ModelTree) -> str:
    """What a reader should know, warnings marked."""
    notes = [*tree.notes]
    if tree.unsupported:
        ops = ", ".join(f"{op} ×{n}" for op, n in tree.unsupported.items())
        notes.append(f"FLOPs not counted (no formula): {ops}")
    items = "".join(
        f'<li class="{"warning" if is_warning(note) else "note"}">{escape(note)}</li>'
        for note in notes
    )
    return f'<ul class="notes">{items}</ul>\n' if items else ""


def provenance_details(tree: ModelTree) -> str:
    """Where everything comes from, folded."""
    hardware = tree.hardware.to_dict() if tree.hardware else {}
    facts = {
        "produced by": tree.energy.produced_by if tree.energy else None,
        **{f"hardware: {name}": value for name, value in hardware.items()},
        **tree.provenance,
        "run": tree.spec.digest if tree.spec else None,
        "page": f"irene {__version__}",
    }
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in facts.items()
        if value
    )
    return (
        "<details><summary>How these numbers came about</summary>"
        f"<dl>{items}</dl></details>\n"
    )


# The picture ------------------------------------------------------------------


def icicle_section(tree: ModelTree) -> str:
    """The picture with its heading and legend."""
    measure = MEASURES[main_key(tree)]
    label = f"Levels of the model from top to bottom, each box as wide as its {measure}"
    return (
        f"<section>\n<h2>Where the {measure} {'is' if measure == 'energy' else 'are'}"
        f"</h2>\n{icicle(tree, label)}\n{_legend(measure)}</section>\n"
    )


def _legend(measure: str) -> str:
    names = [f"under {STEPS[0]:.1%}", *(f"from {step:.1%}" for step in STEPS)]
    items = "".join(
        f'<span><svg viewBox="0 0 10 10"><rect class="c{step}" width="10" height="10"/>'
        f"</svg> {name.replace('.0%', '%')}</span>"
        for step, name in enumerate(names)
    )
    return f'<p class="legend"><span>share of {measure}:</span>{items}</p>\n'
