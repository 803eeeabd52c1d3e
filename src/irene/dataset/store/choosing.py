"""Choosing entries that may stand in one table: nothing is mixed silently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from irene.dataset.store.entry import Entry
from irene.dataset.table import TreeKey
from irene.errors import UsageError

__all__ = ["choose_for_table"]


def choose_for_table(
    path: Path,
    entries: Sequence[Entry],
    hardware: str | None,
    software: str | None,
    allow_mixed: bool,
) -> list[list[Entry]]:
    """The measurements of every model and size of forward passes.

    Args:
        path: The store, for messages.
        entries: Measured, by id.
        hardware: The machine that was asked for.
        software: The software; None if there is to be one only.
        allow_mixed: Whether software may be mixed.

    Raises:
        UsageError: There is nothing, or several machines, software or kinds of run.
    """
    forward = [
        entry
        for entry in entries
        if entry.spec.phase == "forward"
        and software in (None, entry.origin.software_name)
    ]
    if not forward:
        raise UsageError(_nothing(path, entries, hardware, software))
    _one(path, forward, "machines", lambda e: e.hardware, "choose one with --hardware")
    _one(
        path, forward, "machines under one name", _covers,
        "choose those that cover the same",
    )  # fmt: skip
    if not allow_mixed:
        _one(
            path, forward, "versions of software", lambda e: e.origin.software_name,
            "choose one with --software, or allow it with --allow-mixed",
        )  # fmt: skip
    _one(
        path, forward, "kinds of run", _kind_of_run,
        "choose one with --only FIELD=VALUE, or where= in Python",
    )  # fmt: skip
    return _by_run(path, forward)


def _nothing(
    path: Path, entries: Sequence[Entry], hardware: str | None, software: str | None
) -> str:
    asked = [f" on {hardware}"] if hardware else []
    asked += [f" with {software}"] if software else []
    there = sorted({e.origin.software_name for e in entries})
    hint = f"; there is {'; '.join(there)}" if software and there else ""
    return (
        f"{path}: no measured forward pass{''.join(asked)}{hint}: "
        f"`irene data show {path}` lists what there is"
    )


def _one(
    path: Path,
    entries: Iterable[Entry],
    what: str,
    of: Callable[[Entry], str],
    choice: str,
) -> None:
    found = sorted({of(entry) for entry in entries})
    if len(found) > 1:
        named = "; ".join(found[:5])
        raise UsageError(f"{path} has {len(found)} {what} ({named}): {choice}")


def _covers(entry: Entry) -> str:
    return f"{entry.hardware} covers {entry.origin.hardware.covers}"


def _kind_of_run(entry: Entry) -> str:
    """All of a spec that a table's key does not tell, in words."""
    apart = (*TreeKey._fields, "config_digest", "phase")
    told = entry.spec.to_dict().items()
    return ", ".join(f"{n} {v}" for n, v in told if n not in apart and v is not None)


def _by_run(path: Path, entries: Iterable[Entry]) -> list[list[Entry]]:
    chosen: dict[TreeKey, list[Entry]] = {}
    for entry in entries:
        spec = entry.spec
        key = TreeKey(spec.model, spec.batch_size, spec.seq_len)
        chosen.setdefault(key, []).append(entry)
        other = chosen[key][0].spec.config_digest
        if other != spec.config_digest:
            raise UsageError(
                f"{path}: two different configs are called {spec.model!r} "
                f"({other} and {spec.config_digest}): choose one with where= in Python"
            )
    return list(chosen.values())
