"""The process of a job, seen from outside: started, followed, ended in time."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from irene.errors import IreneError
from irene.serve.jobs.bounds import Bounds

__all__ = ["LimitedProcess", "ProcessError", "UnwantedError"]

logger = logging.getLogger(__name__)
PROGRAM = ("-I", "-m", "irene.serve.jobs.work")
"""Arguments of the Python that runs a job."""
LOOK_S = 0.25
"""How often it is asked whether the job is still wanted, s."""
CHUNK = 1 << 16
LONGEST_LINE = 1 << 16
LOG_TAIL = 2_000
KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "TMPDIR", "CUDA_VISIBLE_DEVICES",
    "IRENE_DATA_DIR", "IRENE_SYSFS", "IRENE_PROC", "SYSTEMROOT",
)  # fmt: skip
"""What of the server's environment a job sees: no token, no password."""

HUB_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HF_ENDPOINT", "SSL_CERT_FILE")

Report = Callable[[int, int, str], None]


class ProcessError(IreneError):
    """The process of a job has not given a result.

    Attributes:
        error: Name of the error inside it, or `timeout`, `memory` or `crash`.
    """

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(detail)
        self.error = error


class UnwantedError(Exception):
    """The job was cancelled, or the server stops: the process was ended."""


class LimitedProcess:
    """One job's process.

    Args:
        order: What it shall do; see `work`.
        bounds: What it may use.
        folder: Where it runs; it can write there.
    """

    def __init__(self, order: Mapping[str, Any], bounds: Bounds, folder: Path) -> None:
        self._order = {**order, "bounds": bounds.to_dict()}
        self._bounds = bounds
        self._folder = folder
        self._deadline = float("inf")
        self._report: Report = lambda done, total, text: None

    def run(self, report: Report, is_wanted: Callable[[], bool]) -> bytes:
        """Run it to its end.

        Args:
            report: Is told how far it is.
            is_wanted: Is asked now and then; when it says no, the process is ended.

        Returns:
            The result.

        Raises:
            ProcessError: It failed, took too long or too much.
            UnwantedError: It was not wanted any more.
        """
        self._report = report
        with (self._folder / "log.txt").open("wb") as log_file:
            process = subprocess.Popen(
                [sys.executable, *PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                cwd=self._folder,
                env=_environment(self._folder, bool(self._order.get("hub"))),
                start_new_session=True,
            )
        try:
            self._send_order(process)
            return self._follow(process, is_wanted)
        finally:
            _end(process)

    def _send_order(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its exit is seen later
            process.stdin.write(json.dumps(self._order).encode() + b"\n")
            process.stdin.flush()

    def _follow(
        self, process: subprocess.Popen[bytes], is_wanted: Callable[[], bool]
    ) -> bytes:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        os.set_blocking(pipe, False)
        data = bytearray()
        result_length: int | None = None
        look = time.monotonic() + LOOK_S
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while result_length is None or len(data) < result_length:
                ready = selector.select(LOOK_S)
                if time.monotonic() > look:
                    self._look(is_wanted)
                    look = time.monotonic() + LOOK_S
                if not ready:
                    continue
                chunk = os.read(pipe, CHUNK)
                if not chunk:
                    raise self._crash(process)
                data += chunk
                if result_length is None:
                    result_length = self._take_lines(data)
        return bytes(data[:result_length])

    def _look(self, is_wanted: Callable[[], bool]) -> None:
        if not is_wanted():
            raise UnwantedError
        if time.monotonic() > self._deadline:
            raise ProcessError(
                "timeout",
                f"not finished within {self._bounds.wall_s:g} s, which is the limit: "
                "ask for a smaller model or size",
            )

    def _take_lines(self, data: bytearray) -> int | None:
        """Take whole lines off the front; the length of the result when it comes."""
        while (end := data.find(b"\n")) >= 0:
            message = json.loads(data[:end])
            del data[: end + 1]
            if "result" in message:
                return self._checked_length(message["result"])
            self._hear(message)
        if len(data) > LONGEST_LINE:
            raise ProcessError("crash", "the job's process says nothing that is known")
        return None

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "begun" in message:
            self._deadline = time.monotonic() + self._bounds.wall_s
        if "progress" in message:
            step = message["progress"]
            self._report(step["done"], step["total"], step["text"])
        if "problem" in message:
            problem = message["problem"]
            if problem["error"] == "memory":
                raise _memory_error(self._bounds)
            raise ProcessError(problem["error"], problem["detail"])

    def _checked_length(self, length: int) -> int:
        if length > self._bounds.result_bytes:
            raise ProcessError(
                "LimitError", f"a result of {length:,} bytes is past the limit"
            )
        return length

    def _crash(self, process: subprocess.Popen[bytes]) -> ProcessError:
        """Why it ended without a result."""
        code = process.wait()
        logger.error("job process ended with %s: %s", code, self._log_tail())
        if code == -signal.SIGXCPU:
            return ProcessError(
                "timeout", f"used more than {self._bounds.cpu_s:g} s of CPU time"
            )
        if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGKILL):
            return _memory_error(self._bounds)
        return ProcessError("crash", f"the job's process ended with exit code {code}")

    def _log_tail(self) -> str:
        try:
            text = (self._folder / "log.txt").read_bytes()[-LOG_TAIL:]
        except OSError:
            return ""
        return text.decode(errors="replace")


def _memory_error(bounds: Bounds) -> ProcessError:
    most = f"{bounds.memory_bytes:,} bytes" if bounds.memory_bytes else "there is"
    return ProcessError(
        "memory",
        f"needs more memory than {most}: ask for a smaller model or size",
    )


def _environment(folder: Path, hub: bool) -> dict[str, str]:
    names = (*KEPT_VARIABLES, *(HUB_VARIABLES if hub else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    if not hub:
        kept |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return kept | {"HOME": str(folder), "TOKENIZERS_PARALLELISM": "false"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
