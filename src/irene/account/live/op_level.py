"""Op level: every op with its times, from PyTorch's own profiler (Kineto).

Modules are marked with record functions named `mod:PATH`; which forward op a gradient
function belongs to, the profiler knows by sequence number. The trace is read back from
the file that the profiler writes, as any recorded one is.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast

from irene.account.events import Events
from irene.account.readers.kineto import read_kineto

__all__ = ["OpLevel"]


class OpLevel:
    """Observes modules and has ops profiled; `events` gives what ran.

    Attributes:
        trace: Where the profiler's file is kept; None for a temporary one.
    """

    def __init__(self, trace: Path | None = None) -> None:
        # Kineto reports its own doings on standard error unless told not to.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self.trace = trace
        self._profile: torch.profiler.profile | None = None
        self._marks: dict[int, list[_RecordFunctionFast]] = {}
        self._events: Events | None = None

    def begin_recording(self) -> None:
        """Start the profiler."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        # Counting devices does not start CUDA: the program may yet choose or fork.
        if torch.cuda.device_count():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()

    def end_recording(self) -> None:
        """Stop the profiler and read what it wrote."""
        self._marks.clear()
        if self._profile is None:
            return
        profile, self._profile = self._profile, None
        profile.stop()
        with tempfile.TemporaryDirectory(prefix="irene-") as folder:
            path = self.trace or Path(folder, "trace.json")
            path.unlink(missing_ok=True)
            # The profiler's own results: its Python events, which nobody needs here,
            # would take ten times as long to make as the file.
            profile.profiler.kineto_results.save(str(path))  # type: ignore[union-attr]
            self._events = read_kineto(path).events

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""
        if self._profile is None:
            return
        mark = _RecordFunctionFast(f"mod:{path}")
        mark.__enter__()
        self._marks.setdefault(threading.get_ident(), []).append(mark)

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""
        marks = self._marks.get(threading.get_ident())
        if marks:
            marks.pop().__exit__(None, None, None)

    def begin(self, name: str, phase: str) -> None:
        """PyTorch marks optimizers and loaders itself."""

    def end(self, name: str, phase: str) -> None:
        """PyTorch marks optimizers and loaders itself."""

    def events(self) -> Events:
        """What ran while it recorded."""
        assert self._events is not None
        return self._events
