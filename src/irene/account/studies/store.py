"""Store: every finished run in a small file, so that a study can go on.

A file is named after all that decides what the run gives, so a run of other sizes, of
another model or on another machine is never taken for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from irene.account.studies.run import Job, Run, digest, perform
from irene.errors import FormatError
from irene.whole_file import whole_file

__all__ = ["Progress", "Store"]

Progress = Callable[[int, int, str], None]
"""Told runs done, runs in all, and what is being done."""
LOG = logging.getLogger(__name__)


class Store:
    """Runs that are finished, by what they are runs of.

    Args:
        folder: Where the files are; None to keep nothing.
        fresh: Whether to run everything anew.
        progress: Told before each run and after the last.

    Attributes:
        performed: How many runs were made, not read, since this was opened.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        fresh: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.performed = 0
        self._folder = folder
        self._fresh = fresh
        self._progress = progress
        self._machine = _machine()

    def runs(self, jobs: Sequence[Job]) -> list[Run]:
        """The runs of some jobs: those that are kept, and the others made now.

        Args:
            jobs: In the order to run them.
        """
        found = []
        for done, job in enumerate(jobs):
            self._tell(done, len(jobs), job.words)
            found.append(self._run(job))
        self._tell(len(jobs), len(jobs), "done")
        return found

    def _tell(self, done: int, total: int, words: str) -> None:
        if self._progress is not None:
            self._progress(done, total, words)

    def _run(self, job: Job) -> Run:
        key = job.key(self._machine)
        path = self._folder / f"{digest(key)}.json" if self._folder else None
        kept = None if path is None or self._fresh else _read(path)
        if kept is not None:
            return kept
        run = perform(job)
        self.performed += 1
        if path is not None:
            words = {"model": job.subject.name, "fields": dict(job.subject.fields)}
            _write(path, {"key": key, "subject": words, "run": run.to_dict()})
        return run


def _machine() -> dict[str, str]:
    """What tells machines apart; a new kernel makes no new machine."""
    from irene.meters.machine import describe_machine

    described = describe_machine()
    return {n: described[n] for n in ("cpu", "cpus", "gpu") if n in described}


def _read(path: Path) -> Run | None:
    """The run of a file; None if there is none, or it is damaged."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return Run.from_dict(json.loads(text)["run"])
    except (ValueError, KeyError, TypeError, FormatError):
        LOG.warning("%s is damaged: its run is made again", path)
        return None


def _write(path: Path, fields: Mapping[str, Any]) -> None:
    with whole_file(path) as file:
        file.write(json.dumps(fields, allow_nan=False, default=str).encode())
