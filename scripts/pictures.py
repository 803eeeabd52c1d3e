"""Draw the pictures of the README and the docs from real output.

python -m scripts.pictures [URL of a server whose pages are photographed, too]
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import irene
from irene.show.tree_terminal import tree_screen

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


COMMANDS = {
    "trace": "irene trace bert-base-uncased -b 8 -s 128",
    "predict": "irene predict bert-base-uncased -b 8 -s 128",
}


BROWSERS = ("chromium-headless-shell", "chromium")
BERT = "model=bert-base-uncased&batch_size=8&seq_len=128"
CHAT = "on=b200&batch_size=64&prompt_len=750&output_len=500"
PAGES = {
    "explore": f"/?{BERT}",
    "tree": f"/?{BERT}&view=tree",
    "serving": f"/?model=llama-3.1-8b&{CHAT}",
    "compare": "/compare?subject=bert-base-uncased&subject=distilbert-base-uncased"
    "&batch_size=8&seq_len=128",
    "leaderboard": f"/leaderboard?search=qwen&{CHAT}",
    "serve-plan": "/serve-plan?model=llama-3.1-70b",
}


def photograph(url: str) -> None:
    """Pictures of the pages of a server, in 256 colours.

    Args:
        url: Of the server.
    """
    from PIL import Image
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        found = filter(None, map(shutil.which, BROWSERS))
        browser = playwright.chromium.launch(
            executable_path=next(found, None), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": 1360, "height": 850}, reduced_motion="reduce"
        )
        for name, path in PAGES.items():
            page.goto(url + path, wait_until="networkidle")
            expect(page.locator(".busy")).to_have_count(0, timeout=60_000)
            page.wait_for_load_state("networkidle")
            file = IMAGES / f"dashboard-{name}.png"
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            image.quantize(256).save(file, optimize=True)
        browser.close()


def drawn(name: str) -> str:
    """What a command prints, as an SVG.

    Args:
        name: Of `COMMANDS`.
    """
    from rich.console import Console

    tree = irene.trace("bert-base-uncased", batch_size=8, seq_len=128)
    if name == "predict":
        tree = irene.predict(tree)
    console = Console(record=True, width=112, highlight=False, file=io.StringIO())
    for part in tree_screen(tree, tree.at_level("ml").fold()):
        console.print(part)
    return console.export_svg(title=COMMANDS[name], code_format=SVG, unique_id="irene")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for name in COMMANDS:
        (IMAGES / f"{name}-bert.svg").write_text(drawn(name), encoding="utf-8")
    for url in sys.argv[1:]:
        photograph(url)
