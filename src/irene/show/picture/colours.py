"""Colours by role, for light and dark pages, that colour-blind readers tell apart.

The series follow Okabe and Ito (Color Universal Design, 2008); orange and sky blue are
darker here on white paper, and all are lighter on dark paper, so that each stands out
from the ground by a contrast of 3 : 1 or more.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, get_args

from irene.errors import UsageError

Theme = Literal["auto", "light", "dark"]
SERIES = 7
"""Number of colours for series; the next series begins again, with other dashes."""
STEPS = 8
"""Number of steps of the ramp from little to much."""
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares at which the next step of the ramp begins."""

_LIGHT = {
    "paper": "#ffffff",
    "raised": "#f3f3f0",
    "ink": "#222222",
    "soft": "#5a5a5a",
    "grid": "#dddddd",
    "series0": "#0072b2",
    "series1": "#d55e00",
    "series2": "#008a65",
    "series3": "#bc5f90",
    "series4": "#a87500",
    "series5": "#2b8cc4",
    "series6": "#777777",
}
_DARK = {
    "paper": "#171615",
    "raised": "#242220",
    "ink": "#eceae6",
    "soft": "#b0aca5",
    "grid": "#3a3735",
    "series0": "#4ba3e3",
    "series1": "#f27a2d",
    "series2": "#25c193",
    "series3": "#e29cc2",
    "series4": "#f0b93a",
    "series5": "#9bd7f7",
    "series6": "#a5a5a5",
}
_LIGHT_RAMP = "#fbf3d0 #f9dfa0 #f6c371 #f0a04f #e0773f #c14e45 #933255 #5c1f56"
_DARK_RAMP = "#33264d #55255f #83305f #ab4255 #cf6145 #e88a46 #f5b85f #fce5a0"
_DARK_FIRST, _LIGHT_FIRST = 5, 4
"""Steps from which words on the ramp change to the other ink."""


def colours(theme: Literal["light", "dark"]) -> dict[str, str]:
    """The colour of every role."""
    if theme not in ("light", "dark"):
        raise UsageError(f"no theme {theme!r}; there are {', '.join(get_args(Theme))}")
    dark = theme == "dark"
    found = dict(_DARK if dark else _LIGHT)
    ramp = (_DARK_RAMP if dark else _LIGHT_RAMP).split()
    turn = _LIGHT_FIRST if dark else _DARK_FIRST
    inks = ("#ffffff", "#171615") if dark else ("#1c1b1a", "#ffffff")
    for step, colour in enumerate(ramp):
        found[f"ramp{step}"] = colour
        found[f"on{step}"] = inks[step >= turn]
    return found


def shade(share: float) -> int:
    """Step of the ramp of a share, 0 to 7; one ramp for pictures and tables."""
    return bisect_right(SHARES, share)


def style_sheet(roles: set[str]) -> str:
    """Rules that recolour a picture where the reader prefers dark; never on paper.

    They are held to pictures of ours, so that they may stand in any page.
    """
    light, dark = colours("light"), colours("dark")
    used = sorted(roles)

    def variables(chosen: dict[str, str]) -> str:
        return ";".join(f"--{role}:{chosen[role]}" for role in used)

    rules = "".join(
        f".irene-picture .f-{role}{{fill:var(--{role})}}"
        f".irene-picture .s-{role}{{stroke:var(--{role})}}"
        for role in used
    )
    return (
        f".irene-picture{{{variables(light)}}}"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{.irene-picture{{{variables(dark)}}}}}{rules}"
    )
