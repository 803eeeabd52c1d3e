"""Reads pictures back: what is drawn where."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET

from irene.show.picture import Picture

NAMESPACE = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def parsed(picture: Picture) -> ET.Element:
    return ET.fromstring(picture.svg())


def elements(picture: Picture, tag: str) -> list[ET.Element]:
    return list(parsed(picture).iter(NAMESPACE + tag))


def marks(picture: Picture) -> list[ET.Element]:
    return [e for e in parsed(picture).iter() if "mark" in e.get("class", "").split()]


def words(picture: Picture) -> list[str]:
    return [e.text or "" for e in elements(picture, "text")]


def corners(element: ET.Element) -> list[tuple[float, float]]:
    """Points of a shape, or the corners of what it covers."""
    get = lambda name: float(element.get(name, "0"))  # noqa: E731
    tag = element.tag.removeprefix(NAMESPACE)
    if tag == "rect":
        x, y = get("x"), get("y")
        return [(x, y), (x + get("width"), y + get("height"))]
    if tag == "circle":
        x, y, r = get("cx"), get("cy"), get("r")
        return [(x - r, y - r), (x + r, y + r)]
    return [
        (float(a), float(b))
        for a, b in re.findall(r"(-?[\d.]+),(-?[\d.]+)", element.get("points", ""))
    ]


def inside(picture: Picture, element: ET.Element, slack: float = 0.11) -> bool:
    """Whether all of a shape lies on the picture's ground."""
    return all(
        -slack <= x <= picture.width + slack and -slack <= y <= picture.height + slack
        for x, y in corners(element)
    )


def table(picture: Picture) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(picture.csv())))
