"""The file of templates that ships: what templates have in common is written once.

Pieces of models that are built alike differ in numbers alone. All numbers of such a
group are compared over all its members: where two agree in every member they are one.
The group then has a structure, whose numbers are places in a list, and each member has
the list.
"""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from irene.trace.templates.keeping import (
    ANY_DTYPE,
    COLUMNS,
    FILTERS,
    SCHEMA,
    dtype_of,
    public_versions,
)

__all__ = ["Entry", "pack"]

BLOCK = 1 << 20
"""Characters from which on a block is closed."""
COSTS = ("flops", "bytes_read", "bytes_written")
OWN = ("where", "hits", "unsupported", "members")
"""What every member keeps for itself, besides its numbers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What ships of one model and variant.

    Attributes:
        model: Its name.
        family: Models of one family may be built alike.
        config: Digest of its config.
        variant: Phase, attention and dtype.
        fields: A template as `Template.to_dict` has it, or what stands in its place.
    """

    model: str
    family: str
    config: str
    variant: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class _Shape:
    """A piece, apart: what tells groups from each other, and its numbers."""

    key: str
    layout: list[Any]
    numbers: list[int]
    own: dict[str, Any]
    place: tuple[int, int] = (0, 0)
    values: list[int] = field(default_factory=list)


def pack(entries: Iterable[Entry], configs: Mapping[str, Any]) -> bytes:
    """The file that ships.

    Args:
        entries: Like after like, all of a family together.
        configs: What is to be known of every model's config, by name.
    """
    file = _File(configs)
    families: dict[str, list[Entry]] = {}
    for each in entries:
        families.setdefault(each.family, []).append(each)
    for family in families.values():
        file.add(family)
    return file.finished()


class _File:
    """Blocks of text, and where each model is in them."""

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self.configs = configs
        self.models: dict[str, list[int]] = {}
        self.blocks: list[int] = []
        self.body = self.text = b""

    def add(self, family: Sequence[Entry]) -> None:
        """Structures, then models."""
        shapes = {
            (each.model, each.variant): [
                _shape(piece, each.variant) for piece in each.fields.get("pieces", ())
            ]
            for each in family
        }
        groups: dict[str, list[_Shape]] = {}
        for found in shapes.values():
            for shape in found:
                groups.setdefault(shape.key, []).append(shape)
        for members in groups.values():
            structure = _joined(members)
            place = self._write(structure)
            for member in members:
                member.place = place
        models: dict[str, dict[str, Any]] = {}
        for each in family:
            known = models.setdefault(
                each.model,
                {"config": each.config, "fields": self.configs[each.model]},
            )
            known[each.variant] = _written(each, known, shapes)
        for name, known in models.items():
            self.models[name] = [len(self.blocks), *self._write(known)]
        if len(self.text) > BLOCK:
            self._close()

    def finished(self) -> bytes:
        """The file."""
        self._close()
        fields = {
            "schema": SCHEMA, "versions": public_versions(), "blocks": self.blocks,
            "models": self.models,
        }  # fmt: skip
        head = zlib.compress(_json(fields), 9)
        return f"{len(head):08x}".encode() + head + self.body

    def _write(self, what: Any) -> tuple[int, int]:
        text = _json(what)
        start = len(self.text)
        self.text += text
        return start, len(text)

    def _close(self) -> None:
        packed = lzma.compress(self.text, format=lzma.FORMAT_RAW, filters=FILTERS)
        self.blocks.append(len(packed))
        self.body, self.text = self.body + packed, b""


def _json(what: Any) -> bytes:
    return json.dumps(what, separators=(",", ":")).encode()


def _written(
    entry: Entry,
    known: dict[str, Any],
    shapes: Mapping[tuple[str, str], list[_Shape]],
) -> Any:
    """A template as it is in the file."""
    fields = dict(entry.fields)
    if "pieces" not in fields:
        return fields
    if "?" not in entry.variant:
        digest = fields.pop("config_digest")
        if known.setdefault("digest", digest) != digest:
            raise ValueError(f"{entry.model}: two digests")
    fields["pieces"] = [
        [*shape.place, shape.values, shape.own]
        for shape in shapes[entry.model, entry.variant]
    ]
    return fields


def _shape(piece: Mapping[str, Any], variant: str) -> _Shape:
    """Take a piece apart."""
    dtype = dtype_of(variant)
    columns = dict(zip(COLUMNS, piece["columns"], strict=True))
    width = 1 + max((p for powers in piece["powers"] for p in powers), default=0)
    table = []
    for powers, values in zip(piece["powers"], piece["coefficients"], strict=True):
        row = [0] * width
        for power, value in zip(powers, values, strict=True):
            row[power] = value
        table.append(row)
    rows, slots = [], []
    for number, signature in enumerate(columns["signature"]):
        inputs, outputs, kind = piece["signatures"][signature]
        kind = ANY_DTYPE if kind == dtype else kind
        rows.append([[len(s) for s in inputs], [len(s) for s in outputs], kind])
        slots += [slot for shapes in (inputs, outputs) for s in shapes for slot in s]
        slots += [columns[name][number] for name in COSTS]
    numbers = [*columns["count"], *piece["params"]]
    numbers += [value for slot in slots for value in table[slot]]
    layout = [
        [piece["strings"][i] for i in columns["name"]],
        [piece["strings"][i] for i in columns["op"]],
        columns["depth"], columns["kind"], piece["notes"], width, rows,
    ]  # fmt: skip
    own = {name: piece[name] for name in OWN if piece[name]}
    return _Shape(json.dumps(layout), layout, numbers, own)


def _joined(members: Sequence[_Shape]) -> list[Any]:
    """The structure of a group; its members get their lists of numbers."""
    columns = list(zip(*(member.numbers for member in members), strict=True))
    *plain, width, rows = members[0].layout
    singles = 2 * len(rows)
    polynomials = iter(
        tuple(columns[i : i + width]) for i in range(singles, len(columns), width)
    )
    table: dict[Any, int] = {}
    of_rows, costs = [], []
    for inputs, outputs, dtype in rows:
        dims = tuple(next(polynomials) for _ in range(sum(inputs) + sum(outputs)))
        key = (tuple(inputs), tuple(outputs), dtype, dims)
        of_rows.append(table.setdefault(key, len(table)))
        costs.append([next(polynomials) for _ in COSTS])
    slots = [each for *_, dims in table for each in dims]
    slots += [each[i] for i in range(len(COSTS)) for each in costs]
    distinct = list(dict.fromkeys(slots))
    numbers = columns[:singles] + [each for row in distinct for each in row]
    for place, member in enumerate(members):
        member.values = [column[place] for column in dict.fromkeys(numbers)]
    return [
        *plain, width, _moved(of_rows), [key[:3] for key in table], _moved(slots),
        _moved(numbers),
    ]  # fmt: skip


def _moved(items: Sequence[Any]) -> list[int]:
    """0 for what is new; else how many others were named since it was last named, + 1.

    What stands together in two structures is then written alike in both.
    """
    recent: list[Any] = []
    found = []
    for each in items:
        place = recent.index(each) if each in recent else -1
        if place >= 0:
            recent.pop(place)
        recent.insert(0, each)
        found.append(place + 1)
    return found
