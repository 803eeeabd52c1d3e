"""What the processes of a server do: answer questions, and run jobs.

All are tasks for a `irene.work.child.Child`; heavy libraries are loaded within them.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import IreneError, UsageError
from irene.work.bounds import give_way, limit_memory
from irene.work.task import report

if TYPE_CHECKING:
    from irene.measure.alone.node_by_node import Progress

logger = logging.getLogger(__name__)
JOURNAL = "journal.jsonl"
PREDICT_STEPS = 2
GZIP, LEVEL = 31, 1
"""As zlib has them: what takes a moment is packed in less than that."""
NICE = 5
"""Who computes lets those go first who answer what is known."""


def warm_up(argument: Mapping[str, Any]) -> bytes:
    """Load what most questions need; PyTorch comes with the first that is traced.

    Args:
        argument: `memory_bytes` that may be taken.
    """
    give_way(NICE)
    limit_memory(argument["memory_bytes"])
    from irene.serve.computing.questions import ask

    run = {"batch_size": 1, "seq_len": 8}
    ask("energy", {"model": "bert-l2-h128", "hardware": "pc1", "run": run})
    return b""


def answer(argument: Mapping[str, Any]) -> bytes:
    """The answer to a question.

    Args:
        argument: `question` and `arguments` of `irene.serve.computing.questions.ask`.

    Raises:
        IreneError: The question cannot be answered; the message says why.
    """
    from irene.serve.computing.questions import ask

    return ask(argument["question"], argument["arguments"])


def answer_several(argument: Mapping[str, Any]) -> bytes:
    """Answers to questions that take a moment each; see `read_several`.

    Args:
        argument: In `arguments` all that is `asked`: a `question` and its `arguments`
            each.
    """
    from irene.serve.computing.questions import ask_several
    from irene.trace.templates.trees import TraceNeededError, at_once_alone

    asked = argument["arguments"]["asked"]
    heads: list[dict[str, Any] | None] = []
    parts: list[bytes] = []
    with at_once_alone():
        found = ask_several([(each["question"], each["arguments"]) for each in asked])
    for body in found:
        if isinstance(body, IreneError):
            heads.append({"error": type(body).__name__, "problem": str(body)})
        elif isinstance(body, Exception):  # it is asked alone
            if not isinstance(body, TraceNeededError):
                logger.error("a question among several failed", exc_info=body)
            heads.append(None)
        else:
            packed = zlib.compress(body, LEVEL, GZIP)
            heads.append({"sizes": [len(body), len(packed)]})
            parts += body, packed
    return b"\n".join((json.dumps(heads).encode(), b"".join(parts)))


def read_several(
    answers: bytes,
) -> Iterator[tuple[Mapping[str, Any] | None, bytes, bytes]]:
    """Of each question what became of it, its answer, and the same as gzip.

    Args:
        answers: Of `answer_several`. What became of a question is None where it takes
            more than a moment, or has its `error` and `problem`.
    """
    head, _, rest = answers.partition(b"\n")
    start = 0
    for told in json.loads(head):
        body, packed = (told or {}).get("sizes", (0, 0))
        middle, end = start + body, start + body + packed
        yield told, rest[start:middle], rest[middle:end]
        start = end


def predict_job(argument: Mapping[str, Any]) -> bytes:
    """The document that `GET /energy` gives.

    Args:
        argument: `arguments` of the question; `memory_bytes` that may be taken.

    Raises:
        IreneError: It cannot be predicted.
    """
    give_way(NICE)
    os.environ["OMP_NUM_THREADS"] = "1"
    limit_memory(argument["memory_bytes"])
    report(0, PREDICT_STEPS, "loading the libraries")
    from irene.serve.computing.questions import ask

    report(1, PREDICT_STEPS, "tracing and predicting")
    return ask("energy", argument["arguments"])


def measure_job(argument: Mapping[str, Any]) -> bytes:
    """A measured tree; finished nodes are kept in this folder for the next attempt.

    Args:
        argument: `arguments` of a question, and the `protocol`.

    Raises:
        IreneError: It cannot be measured.
    """
    report(0, 0, "loading the libraries")
    from irene.measure.api import measure
    from irene.serve.computing.questions import only_these

    def tell(step: Progress) -> None:
        text = f"{step.node}: {step.message}" if step.message else step.node
        report(step.done, step.total, text)

    arguments = argument["arguments"]
    takes = inspect.signature(measure).parameters
    unknown = [name for name in arguments["run"] if name not in takes]
    if unknown:  # it can be predicted and not measured
        raise UsageError(f"a measurement has no {unknown[0]}: ask for a prediction")
    with only_these(arguments):
        tree = measure(
            arguments["model"],
            **arguments["run"],
            protocol=argument["protocol"],
            journal=Path(JOURNAL),
            progress=tell,
        )
    text = json.dumps(tree.fold().to_dict(), allow_nan=False, separators=(",", ":"))
    return text.encode()


def learn_job(argument: Mapping[str, Any]) -> bytes:
    """The machine that this runs on, learned; the next attempt goes on.

    Args:
        argument: The `plan`.

    Raises:
        IreneError: It cannot be learned.
    """
    report(0, 0, "loading the libraries")
    from irene.collect.learning import learn

    def tell(done_s: float, total_s: float, what: str) -> None:
        report(round(done_s), round(total_s), what)

    found = learn(argument["plan"], tell=tell)
    return json.dumps(found.to_dict(), allow_nan=False).encode()
