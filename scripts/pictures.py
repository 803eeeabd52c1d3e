"""Draw the pictures of the README and the docs from real output.

python scripts/pictures.py
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import irene
from irene.cli import tree_screen
from irene.cli.options import add_view_options

IMAGES = Path(__file__).parent.parent / "docs" / "images"
# As rich draws it, without the web font: nothing is loaded when it is shown.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}"
 xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px;
 line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})"
 clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def draw_trace() -> None:
    """`irene trace bert-base-uncased -b 8 -s 128` as an SVG."""
    from rich.console import Console

    parser = argparse.ArgumentParser()
    add_view_options(parser)
    options = parser.parse_args([])
    tree = irene.trace("bert-base-uncased", batch_size=8, seq_len=128)
    console = Console(record=True, width=112, highlight=False, file=io.StringIO())
    tree_screen.show(tree, options, console)
    IMAGES.mkdir(exist_ok=True)
    title = "irene trace bert-base-uncased -b 8 -s 128"
    text = console.export_svg(title=title, code_format=SVG, unique_id="irene")
    (IMAGES / "trace-bert.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    draw_trace()
