"""What a picture is made of, and the files it becomes."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

from irene.errors import MissingExtraError, UsageError
from irene.show.picture import AxisSpec, Bar, Line, Picture, bar_chart, line_chart
from irene.show.picture import picture as png
from irene.show.picture.colours import SERIES, STEPS, colours

from ...real_browser import browse, needs_browser
from .reading import NAMESPACE, parsed, words

Y = AxisSpec("energy", "J", low=0)
NASTY = "<script>alert('&\"')</script>\x00\x1b[2J"


def chart(name: str = "bert") -> Picture:
    return line_chart(
        [Line(name, [1, 2], [3, 4]), Line("b", [1, 2], [1, 2])], name, Y, Y
    )


def test_names_cannot_become_markup():
    picture = chart(NASTY)
    assert NAMESPACE + "script" not in {e.tag for e in parsed(picture).iter()}
    shown = NASTY.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert shown in words(picture)
    assert "<script" not in picture.svg()
    assert "<script" not in picture.html()


def test_it_can_be_read_aloud():
    root = parsed(chart())
    assert root.get("role") == "img"
    assert root[0].tag == NAMESPACE + "title"
    assert root[0].text == "bert"
    assert "3 J to 4 J" in (root[1].text or "")


def test_it_loads_nothing():
    text = chart().svg()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in text
    assert "@import" not in text


def test_it_follows_the_reader_on_screen_only():
    auto, light, dark = (chart().svg(theme) for theme in ("auto", "light", "dark"))
    assert "@media screen and (prefers-color-scheme:dark)" in auto
    assert "<style" not in light + dark
    assert colours("dark")["paper"] in dark
    assert colours("dark")["paper"] not in light
    with pytest.raises(UsageError, match="'pink'"):
        chart().svg("pink")  # type: ignore[arg-type]


def test_without_its_style_sheet_it_is_light():
    for element in parsed(chart()).iter():
        classes = element.get("class", "").split()
        for name, letter in (("fill", "f-"), ("stroke", "s-")):
            roles = [c.removeprefix(letter) for c in classes if c.startswith(letter)]
            assert [colours("light")[r] for r in roles] in ([], [element.get(name)])


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_ground(theme):
    palette = colours(theme)
    paper = palette["paper"]
    assert contrast(palette["ink"], paper) >= 7
    assert contrast(palette["soft"], paper) >= 4.5
    for i in range(SERIES):
        assert contrast(palette[f"series{i}"], paper) >= 3, i
    for i in range(STEPS):
        assert contrast(palette[f"ramp{i}"], palette[f"on{i}"]) >= 4.5, i


# Full colour blindness in linear RGB: Machado, Oliveira and Fernandes (2009).
BLIND = {
    "protan": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deutan": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
}


def seen(colour: str, matrix) -> tuple[float, ...]:
    """CIE L*a*b* of a colour as a colour-blind reader sees it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    r, g, b = (
        min(max(sum(m * c for m, c in zip(row, rgb, strict=True)), 0), 1)
        for row in matrix
    )
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", BLIND)
def test_colour_blind_readers_tell_the_first_series_apart(theme, kind):
    palette = [seen(colours(theme)[f"series{i}"], BLIND[kind]) for i in range(4)]
    for i, one in enumerate(palette):
        for other in palette[:i]:
            gap = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
            assert gap > 10


# Files ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.svg", "a.html", "deep/er.SVG"])
def test_the_table_lies_beside_the_picture(tmp_path: Path, name: str):
    picture = chart()
    drawn, numbers = picture.save(tmp_path / name)
    assert drawn == tmp_path / name
    text = drawn.read_text(encoding="utf-8")
    assert picture.svg() in text
    assert numbers.read_text(encoding="utf-8") == picture.csv()


def test_a_png_is_an_image_with_words(tmp_path: Path):
    pytest.importorskip("resvg_py")
    if not png._has_font():
        pytest.skip("no font on this machine")
    drawn, numbers = chart().save(tmp_path / "a.png")
    data = drawn.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">II", data[16:24]) == (2 * 860, 2 * 480)
    silent = bar_chart([Bar("", 5)], "", AxisSpec("")).png(1)
    spoken = bar_chart([Bar("", 5)], "title", AxisSpec("")).png(1)
    assert len(spoken) > len(silent)
    assert numbers.is_file()
    assert chart().png(1, "dark") != chart().png(1, "light")


def test_a_png_without_its_extra_names_the_line_to_type(tmp_path, monkeypatch):
    png._has_font.cache_clear()
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'irene-energy\[pict"):
        chart().save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_fonts_is_told_so(monkeypatch):
    pytest.importorskip("resvg_py")
    png._has_font.cache_clear()
    monkeypatch.setattr(png, "FONTS", "No Such Font")
    with pytest.raises(UsageError, match="no font was found"):
        chart().png()
    png._has_font.cache_clear()


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.csv"])
def test_other_files_are_refused(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match=r"\.svg, \.png or \.html"):
        chart().save(tmp_path / name)


@needs_browser
def test_no_word_is_wider_than_we_think(tmp_path: Path):
    """In a real browser, every text lies on the picture."""
    picture = bar_chart(
        [Bar("a rather long name of some module", 5e3), Bar("WWWWW mmmmm %%", -2e3)],
        "A title that is so long that it must be broken into two lines to fit",
        AxisSpec("energy of one forward pass", "J"),
        width=420,
    )
    script = (
        "<script>const out=[];for(const t of document.querySelectorAll('text')){"
        "const b=t.getBBox();if(b.x<0||b.x+b.width>420)out.push(t.textContent)}"
        "document.title='outside:'+out.join('|')+':'</script></body>"
    )
    # Our own policy would refuse the words of this test.
    free = re.sub(r"<meta http-equiv[^>]+>", "", picture.html())
    page, _ = browse(free.replace("</body>", script), tmp_path)
    assert "outside::" in page
