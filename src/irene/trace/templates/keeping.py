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
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from irene.errors import FormatError, IreneError
from irene.trace.templates.template import Template
from irene.whole_file import cache_folder, whole_file

__all__ = ["SHIPPED", "Kept", "code_digest", "folder", "pack", "shipped", "versions"]

SCHEMA = "irene.templates/1"
SHIPPED = "shipped.templates"
MOST_BYTES = 64_000_000
"""Size from which on the oldest templates of a user are removed."""
BLOCK = 1 << 20
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
LOADED = 64
"""Templates that a process keeps unpacked."""

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


def _public(found: Mapping[str, str]) -> list[str]:
    """Versions without what tells builds of one version apart (`+cpu`)."""
    return [found[name].partition("+")[0] for name in ("torch", "transformers")]


# Those that ship ------------------------------------------------------------------


@cache
def _archive() -> tuple[Mapping[str, Any], bytes]:
    """Where in the file each template is, and the blocks of the file."""
    try:
        file = resources.files("irene.trace.templates").joinpath(SHIPPED)
        data = file.read_bytes()
        end = int(data[:8], 16) + 8
        fields = json.loads(zlib.decompress(data[8:end]))
        if fields["schema"] == SCHEMA and fields["versions"] == _public(versions()):
            return fields["models"], data[end:]
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        log.warning("the templates that ship cannot be read: models are traced")
    except metadata.PackageNotFoundError as error:
        log.debug("%s", error)
    return {}, b""


def shipped(model: str, config: str, variant: str) -> Template | None:
    """The template of a model of the catalogue.

    Args:
        model: Its name.
        config: Digest of its config and class, as in the file.
        variant: Phase, attention and dtype, as in `forward/eager/fp32`.
    """
    known = _archive()[0].get(model)
    if known is None or known["config"] != config or variant not in known:
        return None
    return _shipped(*known[variant])


@lru_cache(maxsize=LOADED)
def _shipped(start: int, length: int, first: int, size: int) -> Template | None:
    """The template at a place of a block."""
    try:
        block = _block(start, length)
        return Template.from_dict(json.loads(block[first : first + size]))
    except (lzma.LZMAError, ValueError, FormatError):
        log.warning("the templates that ship are damaged: models are traced")
        return None


@lru_cache(maxsize=4)
def _block(start: int, length: int) -> bytes:
    data = _archive()[1][start : start + length]
    return lzma.decompress(data, format=lzma.FORMAT_RAW, filters=FILTERS)


def pack(templates: Iterable[tuple[str, str, str, Template]]) -> bytes:
    """The file that ships: blocks of templates that are like each other.

    Args:
        templates: Model, digest of its config, variant, template; like after like.
    """
    models: dict[str, dict[str, Any]] = {}
    body, block = b"", b""
    waiting: list[tuple[str, str, int, int]] = []

    def close() -> None:
        nonlocal body, block
        packed = lzma.compress(block, format=lzma.FORMAT_RAW, filters=FILTERS)
        for model, variant, first, size in waiting:
            models[model][variant] = [len(body), len(packed), first, size]
        waiting.clear()
        body, block = body + packed, b""

    for model, config, variant, template in templates:
        models.setdefault(model, {"config": config})
        text = json.dumps(template.to_dict(), separators=(",", ":")).encode()
        waiting.append((model, variant, len(block), len(text)))
        block += text
        if len(block) > BLOCK:
            close()
    close()
    fields = {"schema": SCHEMA, "versions": _public(versions()), "models": models}
    head = zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 9)
    return f"{len(head):08x}".encode() + head + body


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

    def read(self) -> dict[str, Any] | None:
        """What was written; None if there is nothing that holds here and now."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        try:
            digest, body = data[:32], zlib.decompress(data[32:])
            fields = json.loads(body)
            if hashlib.sha256(body).digest() == digest and fields["made"] == _made_by():
                found: dict[str, Any] = fields["what"]
                return found
        except (ValueError, KeyError, TypeError, zlib.error):
            log.debug("%s is damaged", self.path)
        _remove(self.path)
        return None

    def write(self, what: Mapping[str, Any]) -> None:
        """Keep JSON-ready values, if that can be."""
        body = json.dumps({"made": _made_by(), "what": what}).encode()
        try:
            with whole_file(self.path) as file:
                file.write(hashlib.sha256(body).digest() + zlib.compress(body))
            _make_room(self.path.parent)
        except (OSError, IreneError) as error:
            log.debug("no template is kept: %s", error)


def _made_by() -> list[str]:
    return [SCHEMA, *versions().values(), code_digest("trace", "tree")]


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
