"""Where templates are kept: those that ship, and those that were made for this user.

Data only. What is damaged, of other versions or of other code is thrown away; a folder
that cannot be written costs time, never the answer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import lzma
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import metadata, resources
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from irene.errors import FormatError, IreneError
from irene.trace.templates.template import Template
from irene.tree import Columns
from irene.whole_file import cache_folder, whole_file

SCHEMA = "irene.templates/2"
SHIPPED = "shipped.templates"
MOST_BYTES = 64_000_000
"""Size from which on the oldest templates of a user are removed."""
COLUMNS = [name for name in Columns.__slots__ if name != "params"]
ANY_DTYPE = "*"
"""In a structure: the dtype of the run."""
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
LOADED = 32
"""Templates that a process keeps unpacked."""

DAMAGE = (lzma.LZMAError, ValueError, LookupError, TypeError)
"""What reading a file that is not whole ends with."""

log = logging.getLogger(__name__)


@cache
def versions() -> dict[str, str]:
    """Versions of what is traced with."""
    return {name: metadata.version(name) for name in ("torch", "transformers")}


@cache
def code_digest(*rooms: str) -> str:
    """Digest of the code of some rooms."""
    digest = hashlib.sha256()
    root = Path(str(resources.files("irene")))
    for room in rooms:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def public_versions() -> list[str]:
    """Versions without what tells builds of one version apart (`+cpu`)."""
    found = versions()
    return [found[name].partition("+")[0] for name in ("torch", "transformers")]


# Those that ship ------------------------------------------------------------------


@cache
def _archive() -> tuple[Mapping[str, Any], list[bytes]]:
    """Where in the file each model is, and the blocks of the file."""
    try:
        file = resources.files("irene.trace.templates").joinpath(SHIPPED)
        data = file.read_bytes()
        end = int(data[:8], 16) + 8
        fields = json.loads(zlib.decompress(data[8:end]))
        if fields["schema"] == SCHEMA and fields["versions"] == public_versions():
            ends = [end, *accumulate(fields["blocks"], initial=end)][1:]
            return fields["models"], [data[i:j] for i, j in pairwise(ends)]
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        log.warning("the templates that ship cannot be read: models are traced")
    except metadata.PackageNotFoundError as error:
        log.debug("%s", error)
    return {}, []


def shipped(model: str, config: str, variant: str) -> Template | None:
    """The template of a model of the catalogue.

    Args:
        model: Its name.
        config: Digest of its config and class, as in the file.
        variant: Phase, attention and dtype, as in `forward/eager/fp32`.
    """
    known = _model(model)
    if known.get("config") != config or variant not in known:
        return None
    try:
        return _shipped(model, variant)
    except (*DAMAGE, FormatError):
        log.warning("the templates that ship are damaged: models are traced")
        return None


def shipped_fields(model: str) -> dict[str, Any]:
    """What the file has of a model, by phase, attention and dtype."""
    return {name: each for name, each in _model(model).items() if "/" in name}


def shipped_config(
    model: str, config: str
) -> tuple[dict[str, Any], dict[str, str], list[str]] | None:
    """Fields of a model's config as transformers reads it, and other names of fields.

    Then those of the catalogue that transformers would fill in as they are.

    Args:
        model: Its name.
        config: Digest of its config and class, as in the file.
    """
    known = _model(model)
    return known.get("fields") if known.get("config") == config else None


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Other values of fields as the end of a variant: `?hidden_act="relu"`."""
    words = (f"{name}={json.dumps(changes[name])}" for name in sorted(changes))
    return "".join(f"?{each}" for each in words)


def dtype_of(variant: str) -> str:
    """That of a variant: `fp32` of `forward/eager/fp32?hidden_act="relu"`."""
    return variant.partition("?")[0].rpartition("/")[2]


@lru_cache(maxsize=LOADED)
def _shipped(model: str, variant: str) -> Template:
    known = _model(model)
    fields = known[variant]
    if "like" in fields:
        other = fields["like"]
        return _shipped(model, other).in_dtype(dtype_of(other), dtype_of(variant))
    if "refused" in fields:
        return Template.of_refusal(fields["refused"])
    dtype = dtype_of(variant)
    block = _archive()[0][model][0]
    pieces = [_piece(block, piece, dtype) for piece in fields["pieces"]]
    return Template.from_dict(
        {"config_digest": known["digest"], **fields, "pieces": pieces}
    )


def _piece(block: int, packed: Sequence[Any], dtype: str) -> dict[str, Any]:
    """A piece as `Piece.to_dict` has it: a structure, with numbers at their places."""
    start, length, values, own = packed
    structure, counts, params, rows = _structure(block, start, length)
    columns = [*structure["columns"]]
    columns[COLUMNS.index("count")] = [values[i] for i in counts]
    polynomials = [{p: values[i] for p, i in enumerate(r) if values[i]} for r in rows]
    return {
        **structure,
        "columns": columns,
        "params": [values[i] for i in params],
        "signatures": [
            [inputs, outputs, dtype if name == ANY_DTYPE else name]
            for inputs, outputs, name in structure["signatures"]
        ],
        "powers": [list(each) for each in polynomials],
        "coefficients": [list(each.values()) for each in polynomials],
        **own,
    }


@lru_cache(maxsize=LOADED)
def _structure(
    block: int, start: int, length: int
) -> tuple[dict[str, Any], list[int], list[int], list[list[int]]]:
    """What pieces have in common; where counts, parameters and coefficients are."""
    names, ops, depth, kind, notes, width, of_rows, shapes, slots, numbers = json.loads(
        _block(block)[start : start + length]
    )
    strings: dict[str, int] = {}
    rows = len(names)
    named = [[strings.setdefault(n, len(strings)) for n in t] for t in (names, ops)]
    slots, places = _places(slots), _places(numbers)
    taken = iter(slots)
    signatures = [
        [
            *([[next(taken) for _ in range(rank)] for rank in each[i]] for i in (0, 1)),
            each[2],
        ]
        for each in shapes
    ]
    costs = list(taken)
    lists = [depth, kind, *named, _places(of_rows), []]
    lists += [costs[i : i + rows] for i in range(0, 3 * rows, rows)]
    rest = places[2 * rows :]
    fields = {
        "strings": list(strings), "columns": lists, "signatures": signatures,
        "notes": notes, "hits": [], "members": [], "unsupported": {},
    }  # fmt: skip
    coefficients = [rest[i : i + width] for i in range(0, len(rest), width)]
    return fields, places[:rows], places[rows : 2 * rows], coefficients


def _places(moved: Iterable[int]) -> list[int]:
    """Numbers in the order of their first use, from how long ago each was used."""
    recent: list[int] = []
    found = []
    new = 0
    for steps in moved:
        if steps:
            place = recent.pop(steps - 1)
        else:
            place, new = new, new + 1
        recent.insert(0, place)
        found.append(place)
    return found


@lru_cache(maxsize=LOADED)
def _model(name: str) -> Mapping[str, Any]:
    """What the file has of a model: its digests, and templates by variant."""
    models, _ = _archive()
    if name not in models:
        return {}
    try:
        block, start, length = models[name]
        found: dict[str, Any] = json.loads(_block(block)[start : start + length])
    except DAMAGE:
        log.warning("the templates that ship are damaged: models are traced")
        return {}
    return found


@lru_cache(maxsize=4)
def _block(number: int) -> bytes:
    data = _archive()[1][number]
    return lzma.decompress(data, format=lzma.FORMAT_RAW, filters=FILTERS)


# Those of a user ------------------------------------------------------------------


def folder() -> Path:
    """Where templates that were made are kept."""
    return cache_folder() / "irene" / "templates"


class Kept:
    """What is known of one config, attention, dtype and phase.

    Args:
        key: What names it.
    """

    def __init__(self, key: str) -> None:
        self.path = folder() / f"{key}.z"
        self._made_by = [
            SCHEMA, key, *versions().values(), code_digest("trace", "tree"),
        ]  # fmt: skip

    def read(self) -> dict[str, Any] | None:
        """What was written; None if there is nothing that holds here and now."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        try:
            digest, body = data[:32], zlib.decompress(data[32:])
            fields = json.loads(body)
            is_whole = hashlib.sha256(body).digest() == digest
            if is_whole and fields["made"] == self._made_by:
                found: dict[str, Any] = fields["what"]
                return found
        except (ValueError, KeyError, TypeError, zlib.error):
            log.debug("%s is damaged", self.path)
        _remove(self.path)
        return None

    def write(self, what: Mapping[str, Any]) -> None:
        """Keep JSON-ready values, if that can be."""
        body = json.dumps({"made": self._made_by, "what": what}).encode()
        try:
            with whole_file(self.path) as file:
                file.write(hashlib.sha256(body).digest() + zlib.compress(body))
            _make_room(self.path.parent)
        except (OSError, IreneError) as error:
            log.debug("no template is kept: %s", error)


def _make_room(place: Path) -> None:
    """Remove the oldest files where there are too many."""
    files = [(file.stat(), file) for file in place.glob("*.z")]
    total = sum(state.st_size for state, _ in files)
    for state, file in sorted(files, key=lambda each: each[0].st_mtime):
        if total <= MOST_BYTES:
            return
        total -= state.st_size
        _remove(file)


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        log.debug("%s cannot be removed", path)
