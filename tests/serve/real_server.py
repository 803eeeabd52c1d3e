"""A real `irene serve` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from .patience import first_line, until

READY_S = 240.0
PATIENT = ("--seconds", "240")
"""No computation is too long because the machine does other things, too."""


@dataclass
class RealServer:
    """A server on a free port; `log` has what it wrote."""

    data_dir: Path
    log: Path
    options: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    process: subprocess.Popen[str] = field(init=False)
    url: str = ""

    def start(self, *, ready: bool = True) -> RealServer:
        where = ("--port", "0", "--data-dir", str(self.data_dir))
        words = self.program or (
            "-m",
            "irene",
            "serve",
            *where,
            *PATIENT,
            *self.options,
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )  # fmt: skip
        line = first_line(self.process)
        assert line.startswith("irene serves "), self.log.read_text()
        self.url = line.split()[2]
        self.wait("/readyz" if ready else "/healthz")
        return self

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def wait(self, path: str) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                return httpx.get(self.url + path, timeout=10).status_code == 200
            except httpx.TransportError:
                return False

        until(answers, f"{path} of {self.url}", READY_S)

    def kill(self) -> None:
        """As a power cut would, this process alone."""
        self.process.kill()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            self.kill()
