"""Care of a store: what killed writers left, what is damaged, many small segments.

What a killed writer left is taken in, what is damaged is set aside. Nothing is deleted
but files whose entries are all in the store elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irene.dataset.store.entries import Entry, Machine
from irene.dataset.store.segments import (
    content_of,
    entry_headers,
    place_segment,
    segments_of,
    verified_tables,
)
from irene.dataset.store.store_files import (
    Manifest,
    Segment,
    held,
    sync_folder,
)
from irene.errors import FormatError, MissingExtraError
from irene.whole_file import whole_file

log = logging.getLogger(__name__)

SMALL_BYTES = 1 << 20
"""Segments below this are packed, bytes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong with a file, what was done, and how many entries went or came."""

    file: str
    problem: str
    done: str
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """How many entries packing moved, and the segments before and after."""

    entries: int
    segments_before: int
    segments_after: int


def is_unfinished(manifest: Manifest) -> bool:
    """Whether something was left behind; others may be writing just now."""
    return bool(manifest.torn_bytes) or any(_left_behind(manifest))


def _left_behind(manifest: Manifest) -> Iterator[Path]:
    """Segments that no line names, and files that were not moved to them."""
    for folder in (manifest.files.segments, manifest.files.writing):
        with suppress(FileNotFoundError):
            for file in sorted(folder.iterdir()):
                if (
                    folder == manifest.files.writing
                    or file.name not in manifest.segments
                ):
                    yield file


def finish_writing(manifest: Manifest) -> list[Finding]:
    """Take in, or set aside, what killed writers have left."""
    with held(manifest.files.lock):
        manifest.refresh()
        found = []
        if manifest.torn_bytes:
            manifest.append([])
            found.append(
                Finding(manifest.files.manifest.name, "cut off line", "repaired")
            )
        while (file := next(_left_behind(manifest), None)) is not None:
            found.append(_settle(file, manifest))
    for one in found:
        log.info("%s: %s: %s", one.file, one.problem, one.done)
    return found


def _settle(file: Path, manifest: Manifest) -> Finding:
    try:
        told = [_adopted(*header, file.name) for header in entry_headers(file)]
    except MissingExtraError:
        raise
    except (FormatError, KeyError, TypeError) as error:
        _set_aside(file, manifest, f"unfinished: {error}")
        return Finding(file.name, f"unfinished: {error}", "quarantined")
    new = [entry for entry in told if entry.id not in manifest.entries]
    old = [entry.id for entry in told if entry.id in manifest.entries]
    others = {manifest.entries[name].segment for name in old}
    if not new and not any(_problem(other, manifest) for other in others):
        file.unlink()
        return Finding(file.name, "all of it is in other segments", "removed")
    segment = Segment.of(file.name, file.read_bytes())
    if file.parent != manifest.files.segments:
        file.rename(manifest.files.segments / file.name)
        sync_folder(manifest.files.segments)
    if new:
        manifest.add(_apart(new, manifest), segment)
    else:
        manifest.move(old, segment)
    return Finding(file.name, "whole, but not in the manifest", "adopted", len(told))


def _adopted(header: dict[str, Any], nodes: int, file: str) -> Entry:
    entry = Entry.from_dict(header["entry"])
    if entry.nodes != nodes:
        raise FormatError(f"{entry.id}: {nodes} of {entry.nodes} nodes")
    return replace(entry, segment=file)


def _apart(entries: list[Entry], manifest: Manifest) -> Iterator[Entry]:
    """Entries of machines that do not bear the name of another one."""
    machines = dict(manifest.machines)
    for entry in entries:
        machine = Machine.of(entry)
        if machine in machines.setdefault(entry.hardware, {machine}):
            yield entry
        else:
            yield replace(entry, hardware=f"{entry.hardware}@{entry.origin.host}")


def _problem(file: str, manifest: Manifest) -> str | None:
    """What is wrong with a segment, in words; None if it is what was written."""
    try:
        content_of(manifest.files, manifest.segments[file])
    except FormatError as error:
        return str(error).removeprefix(f"{manifest.files.segments / file}: ")
    return None


def _set_aside(file: Path, manifest: Manifest, reason: str) -> None:
    """Move a file to the quarantine, with the reason beside it."""
    manifest.files.quarantine.mkdir(exist_ok=True)
    place = manifest.files.quarantine / file.name
    count = 1
    while place.exists():
        count += 1
        place = manifest.files.quarantine / f"{count}-{file.name}"
    with whole_file(place.with_name(f"{place.name}.reason.txt")) as text:
        text.write(f"{reason}\n".encode())
    file.rename(place)
    sync_folder(manifest.files.quarantine)


def check_store(manifest: Manifest) -> list[Finding]:
    """Compare every file with its checksum, and put in order what can be."""
    found = _check_manifest(manifest)
    found += finish_writing(manifest)
    for file in list(manifest.segments):
        finding = _check_segment(file, manifest)
        if finding is not None:
            found.append(finding)
    return found


def _check_manifest(manifest: Manifest) -> list[Finding]:
    manifest.refresh()
    if not manifest.damaged:
        return []
    with held(manifest.files.lock):
        manifest.refresh()
        reason = f"damaged lines: {', '.join(map(str, manifest.damaged))}"
        copy = manifest.files.writing / manifest.files.manifest.name
        copy.write_bytes(manifest.files.manifest.read_bytes())
        _set_aside(copy, manifest, reason)
        manifest.drop_damaged()
    return [Finding(manifest.files.manifest.name, reason, "repaired")]


def _check_segment(file: str, manifest: Manifest) -> Finding | None:
    problem = _problem(file, manifest)
    if problem is None:
        return None
    with held(manifest.files.lock):
        manifest.refresh()
        if file not in manifest.segments:  # packed into another meanwhile
            return None
        inside = sum(entry.segment == file for entry in manifest.entries.values())
        if (manifest.files.segments / file).exists():
            _set_aside(manifest.files.segments / file, manifest, problem)
        manifest.quarantine(file, problem)
    return Finding(file, problem, "quarantined", inside)


def pack_segments(manifest: Manifest, small_bytes: int) -> Packed:
    """Pack the small segments of a store; as `Store.pack`."""
    with held(manifest.files.packing):
        manifest.refresh()
        before = manifest.segments
        small = {n: s for n, s in before.items() if s.size_bytes < small_bytes}
        if len(small) < 2:
            return Packed(0, len(before), len(before))
        within: dict[str, list[str]] = {}
        for name, entry in sorted(manifest.entries.items()):
            if entry.segment in small:
                within.setdefault(entry.segment, []).append(name)

        # By the lowest id in each: the same whatever the files are called.
        in_order = dict(sorted(within.items(), key=lambda item: item[1]))
        for ids, content in segments_of(
            verified_tables(manifest.files, small, in_order)
        ):
            with held(manifest.files.lock):
                manifest.move(ids, place_segment(manifest.files, content))
                for file in small.keys() - manifest.segments.keys():
                    (manifest.files.segments / file).unlink(missing_ok=True)
        moved = sum(map(len, within.values()))
        return Packed(moved, len(before), len(manifest.segments))
