"""A real `irene serve` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

READY_S = 500.0


@dataclass
class RealServer:
    """A server on a free port; `log` has what it wrote."""

    data_dir: Path
    log: Path
    options: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)
    url: str = ""

    def start(self, *, ready: bool = True) -> RealServer:
        where = ("--port", "0", "--data-dir", str(self.data_dir))
        words = self.program or ("-m", "irene", "serve", *where, *self.options)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("irene serves "), self.log.read_text()
        self.url = line.split()[2]
        if ready:
            self.wait("/readyz")
        return self

    def wait(self, path: str) -> None:
        ends = time.monotonic() + READY_S
        while time.monotonic() < ends:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                if httpx.get(self.url + path, timeout=10).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"not ready: {self.log.read_text()[-3000:]}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code
