"""The one shell of all pages, and the templates they and notebooks are made of.

A page loads nothing: its style and its script stand in it, and its policy allows no
others. Templates escape all text that they are given.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from irene.human import human, human_energy, human_range, human_spread, human_time
from irene.show.picture.colours import shade
from irene.show.picture.picture import Picture
from irene.show.text import bar, plain, signed_energy
from irene.tree.headline import is_warning


def page(
    template: str,
    title: str,
    *,
    styles: Sequence[str] = ("page.css",),
    script: str = "page.js",
    has_pictures: bool = False,
    **values: Any,
) -> str:
    """One self-contained page."""
    style = "".join(map(_part, styles))
    code = _part(script) if script else ""
    allowed = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'" if has_pictures else _only(style),
        **({"script-src": _only(code)} if code else {}),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    policy = "; ".join(f"{name} {source}" for name, source in allowed.items())
    head = {"title": title, "style": style, "script": code, "policy": policy}
    return rendered(template, **head, **values)


def rendered(template: str, **values: Any) -> str:
    """What a template makes of some values."""
    text = _environment().get_template(template).render(values)
    # A name from a file may hold half a character, which no file could.
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("irene.show.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    shown = (
        bar, human, human_energy, human_range, human_spread, human_time, math.expm1,
        math.isnan, numbers, percent, plain, shade, signed_energy,
    )  # fmt: skip
    environment.filters |= {each.__name__: each for each in shown}
    environment.tests["warning"] = is_warning
    return environment


def percent(share: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{share:.{digits}%}"


def numbers(picture: Picture, form: str = "{}") -> tuple[Any, Any]:
    """Columns and rows of the table behind a picture, its numbers in a given form."""
    columns = [(name, "number" if i else "") for i, name in enumerate(picture.columns)]
    rows = [["" if v is None else v if isinstance(v, str) else form.format(v)
             for v in row] for row in picture.rows]  # fmt: skip
    return columns, rows


def _part(name: str) -> str:
    return files("irene.show.page").joinpath(name).read_text(encoding="utf-8")


def _only(text: str) -> str:
    """Source of a policy that allows this text alone."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
