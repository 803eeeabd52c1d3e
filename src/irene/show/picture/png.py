"""SVG to PNG, by resvg: one small wheel without dependencies, the extra `pictures`."""

from __future__ import annotations

from functools import cache

from irene.errors import MissingExtraError, UsageError
from irene.show.picture.picture import FONTS

__all__ = ["rendered"]

LARGEST_SCALE = 16.0


def rendered(svg: str, scale: float) -> bytes:
    """An SVG without style sheets as PNG.

    Args:
        svg: The picture.
        scale: Pixels of the image for each of the picture, above 0.

    Raises:
        MissingExtraError: resvg is not installed.
        UsageError: This machine has no font, and all words would be missing.
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise UsageError(f"cannot draw a PNG at a scale of {scale}; above 0, up to 16")
    if not _has_font():
        raise UsageError(
            "no font was found on this machine, and a PNG would have no words in it: "
            "install one (such as fonts-dejavu-core), or save the picture as .svg"
        )
    return _resvg(svg, scale)


@cache
def _has_font() -> bool:
    """Whether a letter leaves a trace."""
    page = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" '
        f'font-family="{FONTS}"><text x="2" y="16">{{}}</text></svg>'
    )
    return _resvg(page.format("M"), 1.0) != _resvg(page.format(""), 1.0)


def _resvg(svg: str, scale: float) -> bytes:
    try:
        import resvg_py
    except ImportError as error:
        raise MissingExtraError(
            "a PNG needs resvg: pip install 'irene-energy[pictures]' (an .svg needs "
            "nothing)"
        ) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=scale))
