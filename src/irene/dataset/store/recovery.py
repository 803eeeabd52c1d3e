"""Recovery: what a killed writer left is taken in, what is damaged is set aside.

Nothing is deleted but files whose entries are all in the store elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irene.dataset.store.entry import Entry
from irene.dataset.store.layout import Layout, sync_folder
from irene.dataset.store.locking import held, try_lock
from irene.dataset.store.manifest import Manifest, Segment
from irene.dataset.store.segments import headers, sha256_of, verify
from irene.errors import FormatError, MissingExtraError
from irene.whole_file import whole_file

__all__ = [
    "Finding",
    "check_store",
    "entry_line",
    "finish_writing",
    "is_unfinished",
    "packed_line",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was wrong with a store, and what was done about it.

    Attributes:
        file: Name of the file.
        problem: What was wrong, in words.
        done: `adopted`, `quarantined`, `removed` or `repaired`.
        entries: How many entries were taken in, or went with it.
    """

    file: str
    problem: str
    done: str
    entries: int = 0


def entry_line(entry: Entry, segment: Segment | None = None) -> dict[str, Any]:
    """The manifest's line of an entry."""
    told = {"line": "entry", **entry.to_dict()}
    if segment is None:
        return told
    return {**told, "sha256": segment.sha256, "bytes": segment.size_bytes}


def packed_line(ids: list[str], segment: Segment) -> dict[str, Any]:
    """The manifest's line of entries that are in another segment now."""
    return {
        "line": "packed",
        "segment": segment.file,
        "sha256": segment.sha256,
        "bytes": segment.size_bytes,
        "ids": ids,
    }


def is_unfinished(layout: Layout, manifest: Manifest) -> bool:
    """Whether something was left behind; others may be writing just now."""
    return bool(manifest.torn_bytes) or any(_left_behind(layout, manifest))


def _left_behind(layout: Layout, manifest: Manifest) -> Iterator[Path]:
    """Segments that no line names, and files that nobody writes any more."""
    for folder in (layout.segments, layout.writing):
        with suppress(FileNotFoundError):
            for file in sorted(folder.iterdir()):
                if folder == layout.writing:
                    if try_lock(file):
                        yield file
                elif file.name not in manifest.segments:
                    yield file


def finish_writing(layout: Layout, manifest: Manifest) -> list[Finding]:
    """Take in, or set aside, what killed writers have left.

    Raises:
        UsageError: The store cannot be written.
    """
    with held(layout.lock):
        manifest.refresh()
        found = []
        if manifest.torn_bytes:
            manifest.append([])
            found.append(Finding(layout.manifest.name, "cut off line", "repaired"))
        while (file := next(_left_behind(layout, manifest), None)) is not None:
            found.append(_settle(file, layout, manifest))
    for one in found:
        log.info("%s: %s: %s", one.file, one.problem, one.done)
    return found


def _settle(file: Path, layout: Layout, manifest: Manifest) -> Finding:
    try:
        told = [_adopted(*header, file.name) for header in headers(file)]
        if not told:
            raise FormatError(f"{file}: no entry in it")
    except MissingExtraError:
        raise
    except (FormatError, KeyError, TypeError) as error:
        _set_aside(file, layout, f"unfinished: {error}")
        return Finding(file.name, f"unfinished: {error}", "quarantined")
    new = [entry for entry in told if entry.id not in manifest.entries]
    old = [entry.id for entry in told if entry.id in manifest.entries]
    if not new and all(
        _is_sound(name, layout, manifest) for name in _files(old, manifest)
    ):
        file.unlink()
        return Finding(file.name, "all of it is in other segments", "removed")
    segment = Segment(file.name, sha256_of(file), file.stat().st_size)
    if file.parent != layout.segments:
        file.rename(layout.segments / file.name)
        sync_folder(layout.segments)
    lines = [entry_line(entry, segment) for entry in _apart(new, manifest)]
    manifest.append(lines or [packed_line(old, segment)])
    return Finding(file.name, "whole, but not in the manifest", "adopted", len(told))


def _apart(entries: list[Entry], manifest: Manifest) -> Iterator[Entry]:
    """Entries of machines that do not bear the name of another one."""
    machines = {name: set(told) for name, told in manifest.machines.items()}
    for entry in entries:
        told = (entry.origin.hardware.covers, entry.origin.hardware.description)
        if told in machines.setdefault(entry.hardware, {told}):
            yield entry
        else:
            yield replace(entry, hardware=f"{entry.hardware}@{entry.origin.host}")


def _files(ids: list[str], manifest: Manifest) -> set[str]:
    return {manifest.entries[name].file for name in ids}


def _is_sound(file: str, layout: Layout, manifest: Manifest) -> bool:
    try:
        verify(layout.segments / file, manifest.segments[file])
    except FormatError:
        return False
    return True


def _adopted(header: dict[str, Any], nodes: int, file: str) -> Entry:
    entry = Entry.from_dict(header["entry"])
    if entry.nodes != nodes:
        raise FormatError(f"{entry.id}: {nodes} of {entry.nodes} nodes")
    return replace(entry, file=file)


def _set_aside(file: Path, layout: Layout, reason: str) -> None:
    """Move a file to the quarantine, with the reason beside it."""
    layout.quarantine.mkdir(exist_ok=True)
    place = layout.quarantine / file.name
    count = 1
    while place.exists():
        count += 1
        place = layout.quarantine / f"{count}-{file.name}"
    with whole_file(place.with_name(f"{place.name}.reason.txt")) as text:
        text.write(f"{reason}\n".encode())
    file.rename(place)
    sync_folder(layout.quarantine)


def check_store(layout: Layout, manifest: Manifest) -> list[Finding]:
    """Compare every file with its checksum, and put in order what can be.

    Returns:
        What was wrong; nothing is now.

    Raises:
        UsageError: The store cannot be written.
    """
    found = _check_manifest(layout, manifest)
    found += finish_writing(layout, manifest)
    for segment in list(manifest.segments.values()):
        finding = _check_segment(segment, layout, manifest)
        if finding is not None:
            found.append(finding)
    return found


def _check_manifest(layout: Layout, manifest: Manifest) -> list[Finding]:
    manifest.refresh()
    if not manifest.damaged:
        return []
    with held(layout.lock):
        manifest.refresh()
        lines = ", ".join(map(str, manifest.damaged))
        reason = f"damaged lines: {lines}"
        copy = layout.folder / "writing" / layout.manifest.name
        copy.write_bytes(layout.manifest.read_bytes())
        _set_aside(copy, layout, reason)
        manifest.rewrite()
    return [Finding(layout.manifest.name, reason, "repaired")]


def _check_segment(
    segment: Segment, layout: Layout, manifest: Manifest
) -> Finding | None:
    path = layout.segments / segment.file
    try:
        verify(path, segment)
    except FormatError as error:
        problem = str(error).removeprefix(f"{path}: ")
    else:
        return None
    with held(layout.lock):
        manifest.refresh()
        if segment.file not in manifest.segments:  # packed into another meanwhile
            return None
        held_there = sum(e.file == segment.file for e in manifest.entries.values())
        if path.exists():
            _set_aside(path, layout, problem)
        manifest.append(
            [{"line": "quarantined", "segment": segment.file, "reason": problem}]
        )
    return Finding(segment.file, problem, "quarantined", held_there)
