"""What the processes of a server do: answer questions, and run jobs.

All are tasks for a `irene.work.child.Child`; heavy libraries are loaded within them.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError
from irene.work.bounds import give_way, limit_memory
from irene.work.task import report

if TYPE_CHECKING:
    from irene.measure.alone.node_by_node import Progress

JOURNAL = "journal.jsonl"
PREDICT_STEPS = 2
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
