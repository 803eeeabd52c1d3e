"""A report as one page: no network, no files beside it, nothing but text is trusted."""

from __future__ import annotations

import base64
import hashlib
from datetime import date
from html import escape
from importlib.resources import files

from irene import __version__
from irene.show.headline import model_name
from irene.show.page.tree_page import icicle_section, page_part, shown_tree
from irene.show.page.tree_tables import operator_section, tree_section
from irene.show.report.answers import (
    bottleneck_section,
    size_section,
    suggestion_section,
    trade_off_section,
)
from irene.show.report.contents import Report
from irene.show.report.method import left_out_section, method_section
from irene.show.report.summary import header
from irene.show.text import human, human_range

__all__ = ["report_html"]

TITLES = {
    "icicle": "Picture",
    "bottlenecks": "Bottlenecks",
    "nodes": "Tree",
    "sizes": "Other sizes",
    "trade-off": "Accuracy",
    "suggestions": "Suggestions",
    "method": "Method",
    "left-out": "Not here",
}


def report_html(report: Report, title: str | None = None) -> str:
    """One self-contained page.

    Args:
        report: All that is known.
        title: Heading of the page; the model's name if None.
    """
    heading = title or model_name(report.tree)
    style = page_part("page.css") + _own_style()
    script = page_part("page.js")
    parts = _sections(report)
    page = (
        f"<!DOCTYPE html>\n{_head(report, heading, style, script)}<body>\n"
        f"<header>\n{header(report, heading)}</header>\n{_contents(parts)}"
        f"<main>\n{''.join(parts.values())}</main>\n{_footer()}"
        '<div id="details" role="status" hidden></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
    # A name from a file may hold half a character, which no file could.
    return page.encode("utf-8", "replace").decode("utf-8")


def _own_style() -> str:
    file = files("irene.show.report").joinpath("report.css")
    return file.read_text(encoding="utf-8")


def _head(report: Report, heading: str, style: str, script: str) -> str:
    total = report.tree.energy_of(0)
    told = human_range(total) if total else human(report.tree.root.flops, "FLOP")
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    only = f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
    # Pictures carry styles of their own.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {only}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(heading)}: {told}</title>\n"
        f"<style>{style}</style>\n</head>\n"
    )


def _sections(report: Report) -> dict[str, str]:
    """The parts that there are, by their anchors."""
    shown, level = shown_tree(report.tree)
    parts = {"icicle": _anchored("icicle", icicle_section(shown))}
    if report.bottlenecks is not None:
        parts["bottlenecks"] = bottleneck_section(report.bottlenecks)
    nodes = _anchored("nodes", tree_section(shown, level))
    parts["nodes"] = nodes + operator_section(report.tree)
    if report.sizes:
        parts["sizes"] = size_section(report)
    if report.trade_off is not None:
        parts["trade-off"] = trade_off_section(report, report.trade_off)
    if report.advice is not None:
        parts["suggestions"] = suggestion_section(report, report.advice)
    parts["method"] = method_section(report)
    if report.left_out:
        parts["left-out"] = left_out_section(report.left_out)
    return parts


def _anchored(name: str, text: str) -> str:
    """A section of the page of a tree with a place to link to."""
    return text.replace("<section>", f'<section id="{name}">', 1)


def _contents(parts: dict[str, str]) -> str:
    links = "".join(f'<li><a href="#{name}">{TITLES[name]}</a></li>' for name in parts)
    return f'<nav aria-label="Parts of this report"><ul>{links}</ul></nav>\n'


def _footer() -> str:
    made = f"Made by irene {__version__} on {date.today().isoformat()}."
    return f'<footer class="soft"><p>{made}</p></footer>\n'
