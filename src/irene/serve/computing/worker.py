"""The program of a computing process: reads questions, writes answers.

It is started as `python -m irene.serve.computing.worker SECONDS MEMORY_BYTES` and ends
when its input does.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from irene.errors import IreneError
from irene.serve.computing.frames import pack, read_frame
from irene.serve.computing.limits import limit_memory

__all__ = ["main"]

logger = logging.getLogger(__name__)
LATER_S = 5
"""The server ends a late process; this long after, it ends itself."""


def main(seconds: float, memory_bytes: int) -> None:
    """Answer questions until there are no more.

    Args:
        seconds: Longest time for one, s.
        memory_bytes: Memory that may be taken on top of what the libraries take.
    """
    questions, answers = _pipes()
    _warm_up()
    limit_memory(memory_bytes)
    _write(answers, pack({"ready": True}))
    while (message := read_frame(questions)) is not None:
        # Where the server was killed nobody else would end a process that hangs.
        signal.alarm(int(seconds) + LATER_S)
        reply = _answer(message[0])
        signal.alarm(0)
        _write(answers, reply)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes; what libraries print goes to the log instead."""
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    # Ctrl-C in a terminal reaches every process; the server says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return questions, answers


def _warm_up() -> None:
    """Load the libraries, and what they load when they are first used."""
    import torch

    from irene.serve.computing.questions import ask

    torch.set_num_threads(1)
    run = {"batch_size": 1, "seq_len": 8}
    ask("energy", {"model": "bert-l2-h128", "hardware": "pc1", "run": run})


def _answer(message: Mapping[str, Any]) -> bytes:
    """The reply to a question; a mistake of the user is a reply, too."""
    from irene.serve.computing.questions import ask

    try:
        body = ask(message["question"], message["arguments"])
    except IreneError as error:
        return pack({"error": type(error).__name__, "message": str(error)})
    except (MemoryError, RecursionError) as error:
        return pack({"error": "memory", "message": type(error).__name__, "last": True})
    except Exception as error:
        if "alloc" in str(error).lower():  # how torch says that memory is short
            return pack({"error": "memory", "message": str(error)[:300], "last": True})
        logger.exception("unexpected: %s", json.dumps(message)[:1000])
        return pack({"error": "unexpected", "message": type(error).__name__})
    return pack({}, body)


def _write(pipe: BinaryIO, data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    try:
        main(float(sys.argv[1]), int(sys.argv[2]))
    except BrokenPipeError:  # the server is gone
        os._exit(0)
