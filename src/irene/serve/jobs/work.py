"""The program of a job's process: one order in, lines of progress and a result out.

It is started as `python -I -m irene.serve.jobs.work` in an empty folder. The first line
of its input is the order. The input stays open as long as the server lives: when it
ends, so does this process, and all that it has started.

Each line of its output is a JSON object: `{"begun": true}`, `{"progress": {…}}`,
`{"problem": {…}}`, or `{"result": LENGTH}` before that many bytes.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from irene.errors import IreneError, UsageError
from irene.serve.jobs.bounds import set_bounds

if TYPE_CHECKING:
    from irene.measure.alone.node_by_node import Progress

__all__ = ["Channel", "main"]

JOURNAL = "journal.jsonl"
PREDICT_STEPS = 2


class Channel:
    """The way back to the server.

    Args:
        pipe: Where lines go.
    """

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe

    def say(self, **message: Any) -> None:
        """Send one line."""
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
        self._pipe.write(text.encode() + b"\n")
        self._pipe.flush()

    def progress(self, done: int, total: int, text: str) -> None:
        """Say how far the work is."""
        self.say(progress={"done": done, "total": total, "text": text[:300]})

    def result(self, body: bytes) -> None:
        """Send the result."""
        self.say(result=len(body))
        self._pipe.write(body)
        self._pipe.flush()


def main() -> None:
    """Carry out the order on standard input."""
    order, channel = _connect()
    set_bounds(order["bounds"])
    try:
        channel.result(_carry_out(order, channel))
    except IreneError as error:
        channel.say(problem={"error": type(error).__name__, "detail": str(error)})
    except (MemoryError, RecursionError):
        channel.say(problem={"error": "memory", "detail": ""})
    except Exception as error:
        if "alloc" not in str(error).lower():  # how torch says that memory is short
            raise
        channel.say(problem={"error": "memory", "detail": ""})


def _connect() -> tuple[dict[str, Any], Channel]:
    """The order, and the way back; what libraries print goes to the log."""
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Ctrl-C in a terminal reaches every process; the server says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return order, Channel(pipe)


def _end_with_the_server() -> None:
    """Wait until the server's end of the input is closed, by whatever."""
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _carry_out(order: Mapping[str, Any], channel: Channel) -> bytes:
    if order["kind"] == "measure":
        return _measured(order, channel)
    return _predicted(order, channel)


def _predicted(order: Mapping[str, Any], channel: Channel) -> bytes:
    """The document that `GET /energy` gives."""
    channel.say(begun=True)
    channel.progress(0, PREDICT_STEPS, "loading the libraries")
    import torch

    import irene.trace.tracer  # noqa: F401  so that memory counts from here
    from irene.serve.computing.limits import limit_memory
    from irene.serve.computing.questions import ask

    torch.set_num_threads(1)
    limit_memory(order["bounds"]["memory_bytes"])
    channel.progress(1, PREDICT_STEPS, "tracing and predicting")
    return ask("energy", order["arguments"])


def _measured(order: Mapping[str, Any], channel: Channel) -> bytes:
    """A measured tree; finished nodes are kept for the next attempt."""
    from irene.serve.jobs.file_lock import measurement_lock

    lock = measurement_lock()
    if not lock.take():
        channel.progress(0, 0, "another measurement runs on this machine: waiting")
        lock.wait(lambda: True)
    channel.say(begun=True)
    channel.progress(0, 0, "loading the libraries")
    from irene.measure.api import measure
    from irene.serve.computing.questions import only_these

    def tell(step: Progress) -> None:
        text = f"{step.node}: {step.message}" if step.message else step.node
        channel.progress(step.done, step.total, text)

    arguments = order["arguments"]
    _check_takes(measure, arguments["run"])
    with only_these(arguments):
        tree = measure(
            arguments["model"],
            **arguments["run"],
            protocol=order["protocol"],
            journal=Path(JOURNAL),
            progress=tell,
        )
    text = json.dumps(tree.fold().to_dict(), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _check_takes(function: Callable[..., Any], run: Mapping[str, Any]) -> None:
    """Refuse fields of a run that can be predicted and not measured."""
    known = inspect.signature(function).parameters
    unknown = [name for name in run if name not in known]
    if unknown:
        raise UsageError(f"a measurement has no {unknown[0]}: ask for a prediction")


if __name__ == "__main__":
    main()
