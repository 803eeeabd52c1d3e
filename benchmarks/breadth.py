"""How many of transformers' model types irene can trace.

Every type of the AutoModel map is built from its default config, with fewer layers
where it has many, and traced through `irene.trace`, each in a worker process with a
time limit. A type counts as traced when its whole forward ran and its tree has FLOPs
and bytes. With `--templates` its template is made as well, and proved at further sizes.

    python benchmarks/breadth.py [--only NAME …] [--jobs N] [--limit N] [--json]
        [--templates] [--into FILE]

With `--into` outcomes are added to a file as they come, and a type that has one there
is not tried again.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from irene.errors import IreneError

SIZES: dict[str, Any] = {"batch_size": 2, "seq_len": 64}
"""Size of every run."""

OWN_SIZES: dict[str, dict[str, int]] = {
    "owlv2": {"seq_len": 16},  # the longest text it takes
    "owlvit": {"seq_len": 16},
    "tvp": {"batch_size": 1},  # its column positions fit one clip only
    "vilt": {"seq_len": 40},
}
"""Types that do not take that size."""

MEMORY_BYTES = 14 << 30
"""What a worker may take before its type counts as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one model type.

    Attributes:
        model_type: Its name in transformers.
        main_input: `main_input_name` of its class.
        reason: Why it was not traced; empty if it was.
        cause: The same in a few words, to count.
        seconds: Time of building and tracing.
        nodes: Nodes of the tree.
        flops: Floating-point operations of the tree.
        device: `meta`, or `cpu` if it had to be run for real.
        text_alone: Whether it was given no image or sound, though it reads them.
        unsupported: Ops without a FLOP formula, and how often each ran.
        template: Why it has no template; empty if it has, None if none was tried.
    """

    model_type: str
    main_input: str = "?"
    reason: str = ""
    cause: str = ""
    seconds: float = 0.0
    nodes: int = 0
    flops: int = 0
    device: str = ""
    text_alone: bool = False
    unsupported: dict[str, int] = field(default_factory=dict)
    template: str | None = None

    @property
    def is_traced(self) -> bool:
        """Whether there is a tree."""
        return not self.reason


# One type ---------------------------------------------------------------------


def attempt(model_type: str, with_template: bool) -> Outcome:
    """Build and trace one model type."""
    from reduced_configs import reduced_config

    import irene

    outcome = Outcome(model_type)
    start = time.perf_counter()
    try:
        config = reduced_config(model_type)
        outcome = replace(outcome, main_input=main_input_of(config))
        tree = irene.trace(config, **(SIZES | OWN_SIZES.get(model_type, {})))
        total = tree.total()
        outcome = replace(
            outcome,
            nodes=tree.node_count,
            flops=total.flops,
            device=tree.provenance["device"],
            text_alone=any("text alone" in note for note in tree.notes),
            unsupported=dict(tree.unsupported),
        )
        if not total.flops or not total.bytes:
            outcome = failed(outcome, "empty tree", "the tree has no FLOPs or no bytes")
        elif with_template:
            outcome = replace(outcome, template=why_no_template(model_type, tree))
    except MemoryError:
        outcome = failed(outcome, "out of memory", "out of memory")
    except IreneError as error:
        outcome = failed(outcome, cause_of(str(error)), str(error))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the result
        message = f"{type(error).__name__}: {error}"
        outcome = failed(outcome, cause_of(message), message)
    return replace(outcome, seconds=round(time.perf_counter() - start, 2))


def why_no_template(model_type: str, tree: Any) -> str:
    """Make the template of a type, and compare it with its tree; "" if all is well."""
    from reduced_configs import reduced_config

    from irene.spec import RunSpec
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import resolve
    from irene.trace.templates.making import make_template
    from irene.trace.templates.template import sizes_of

    if tree.provenance["device"] != "meta":
        return "it looks at its data, and is run for real"
    try:
        resolved = resolve(reduced_config(model_type), DEFAULT_LIMITS)
        template = make_template(resolved, RunSpec(""))
    except IreneError as error:
        return " ".join(str(error).split())[:300]
    sizes = sizes_of(tree.spec, template.axes)
    piece = template.piece(sizes)
    if piece is None:
        return f"it does not hold at {sizes}"
    notes = (*template.reach.notes(tree.spec), *piece.skeleton.notes)
    kept = {"spec": tree.spec, "provenance": tree.provenance, "notes": notes}
    found = piece.at(sizes, **kept)
    return "" if found and found.unfold() == tree else "it differs from the trace"


def failed(outcome: Outcome, cause: str, reason: str) -> Outcome:
    """The same outcome as a failure."""
    return replace(outcome, cause=cause, reason=" ".join(reason.split())[:300])


def main_input_of(config: Any) -> str:
    """`main_input_name` of the class that AutoModel builds for a config."""
    from transformers import MODEL_MAPPING

    found = MODEL_MAPPING[type(config)]
    first = found[0] if isinstance(found, tuple | list) else found
    return str(first.main_input_name)


CAUSES = (
    ("out of memory", "DefaultCPUAllocator"),
    ("a package is missing", "not found in your environment"),
    ("a package is missing", "install"),
    ("not in this transformers", "Could not find"),
    ("no inputs known", "with inputs of your own"),
    ("looks at its data, and is too large to run", "looks at its data"),
    ("cannot be built", "cannot build"),
    ("its forward fails", " failed in "),
)
"""Causes by words of the message; the first that fits counts."""


def cause_of(message: str) -> str:
    """A few words for an error."""
    return next((cause for cause, words in CAUSES if words in message), "other")


# Workers ----------------------------------------------------------------------


def serve(connection: Any, with_templates: bool) -> None:
    """A worker: model types in, outcomes out, until None comes."""
    import torch

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    torch.set_num_threads(1)
    silence()
    while (model_type := connection.recv()) is not None:
        connection.send(attempt(model_type, with_templates))


def silence() -> None:
    """Keep advice and warnings of the models off the screen."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ["HF_HUB_OFFLINE"] = "1"
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.dup2(null, sys.stderr.fileno())


class Worker:
    """A process that traces one type after the other.

    Attributes:
        connection: Its end here.
        model_type: What it is at; None if idle.
        deadline: When that counts as hung, on `time.monotonic`.
    """

    def __init__(self, with_templates: bool) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, there = context.Pipe()
        self.with_templates = with_templates
        self.process = context.Process(
            target=serve, args=(there, with_templates), daemon=True
        )
        self.process.start()
        there.close()
        self.model_type: str | None = None
        self.deadline = 0.0

    def give(self, model_type: str, seconds: float) -> None:
        """Start on a type."""
        self.model_type = model_type
        self.deadline = time.monotonic() + seconds
        self.connection.send(model_type)

    def take(self) -> Outcome:
        """The outcome that is ready, or the failure that ended the process."""
        assert self.model_type is not None
        try:
            outcome: Outcome = self.connection.recv()
        except EOFError:
            self.process.join()
            reason = f"its process ended with code {self.process.exitcode}"
            outcome = failed(Outcome(self.model_type), "process died", reason)
        self.model_type = None
        return outcome

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_all(
    names: Sequence[str], jobs: int, seconds: float, with_templates: bool
) -> Iterator[Outcome]:
    """Outcomes of all types, in the order in which they come."""
    waiting = list(reversed(names))
    workers = [Worker(with_templates) for _ in range(min(jobs, len(names)))]
    try:
        while waiting or any(worker.model_type for worker in workers):
            for index, worker in enumerate(workers):
                if worker.model_type is None and waiting:
                    if not worker.process.is_alive():
                        worker.stop()
                        worker = workers[index] = Worker(with_templates)
                    worker.give(waiting.pop(), seconds)
            yield from collect(workers, seconds)
    finally:
        for worker in workers:
            worker.stop()


def collect(workers: list[Worker], seconds: float) -> Iterator[Outcome]:
    """Wait for an outcome, and replace workers that take too long."""
    busy = {w.connection: w for w in workers if w.model_type is not None}
    patience = min(w.deadline for w in busy.values()) - time.monotonic()
    ready = multiprocessing.connection.wait(list(busy), max(patience, 0))
    for connection in ready:
        yield busy[connection].take()  # type: ignore[index]
    for index, worker in enumerate(workers):
        if worker.model_type is not None and time.monotonic() > worker.deadline:
            worker.stop()
            workers[index] = Worker(worker.with_templates)
            outcome = Outcome(worker.model_type)
            yield failed(outcome, "too slow", f"not done after {seconds:g} s")


# Report -----------------------------------------------------------------------


def with_main_input(outcome: Outcome) -> Outcome:
    """The main input also of a type whose process was lost."""
    if outcome.main_input != "?":
        return outcome
    from reduced_configs import reduced_config

    try:
        name = main_input_of(reduced_config(outcome.model_type))
    except Exception:  # noqa: BLE001  no class or no config: then it has none
        return outcome
    return replace(outcome, main_input=name)


def share(outcomes: Sequence[Outcome]) -> str:
    """`traced/total (percent)`."""
    traced = sum(outcome.is_traced for outcome in outcomes)
    return f"{traced}/{len(outcomes)} ({traced / max(len(outcomes), 1):.1%})"


def report(outcomes: Sequence[Outcome]) -> None:
    """Print failures, then counts."""
    failures = [outcome for outcome in outcomes if not outcome.is_traced]
    for outcome in sorted(failures, key=lambda o: (o.cause, o.model_type)):
        print(f"{outcome.model_type} [{outcome.main_input}]: {outcome.reason}")
    reads_text = [o for o in outcomes if o.main_input == "input_ids"]
    print(f"\ntraced                  {share(outcomes)}")
    print(f"main input `input_ids`  {share(reads_text)}")
    real = sum(o.device == "cpu" for o in outcomes)
    print(f"of these run for real   {real}")
    alone = sum(o.text_alone for o in outcomes)
    print(f"with text alone         {alone}  (their default images do not fit)")
    for cause, count in Counter(o.cause for o in failures).most_common():
        print(f"  {count:4d}  {cause}")
    unsupported: Counter[str] = Counter()
    for outcome in outcomes:
        unsupported.update(outcome.unsupported)
    report_templates([outcome for outcome in outcomes if outcome.template is not None])
    ops = ", ".join(f"{op} ×{n}" for op, n in unsupported.most_common())
    print(f"ops without a FLOP formula: {ops or 'none'}")


def report_templates(outcomes: Sequence[Outcome]) -> None:
    """For how many types a template was made, and why not for the others."""
    if not outcomes:
        return
    without = [outcome for outcome in outcomes if outcome.template]
    print(f"with a template         {len(outcomes) - len(without)}")
    for outcome in sorted(without, key=lambda each: str(each.template)):
        print(f"  {outcome.model_type}: {outcome.template}")


def known(file: Path | None) -> list[Outcome]:
    """Outcomes that a file has."""
    if file is None or not file.exists():
        return []
    return [Outcome(**json.loads(line)) for line in file.read_text().splitlines()]


def main() -> int:
    """Go through the types and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these types alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=int, help="the first N types alone")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit per type")
    parser.add_argument("--json", action="store_true", help="outcomes as JSON")
    parser.add_argument("--templates", action="store_true", help="make templates, too")
    parser.add_argument("--into", type=Path, metavar="FILE", help="keep outcomes here")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    import irene.trace.tracer  # noqa: F401  imported once, before the workers fork

    names = list(options.only or MODEL_MAPPING_NAMES)[: options.limit]
    start = time.perf_counter()
    outcomes = [each for each in known(options.into) if each.model_type in names]
    done = {outcome.model_type for outcome in outcomes}
    left = [name for name in names if name not in done]
    for outcome in run_all(left, options.jobs, options.seconds, options.templates):
        outcomes.append(with_main_input(outcome))
        if options.into:
            with options.into.open("a") as file:
                file.write(json.dumps(asdict(outcomes[-1])) + "\n")
        traced = sum(o.is_traced for o in outcomes)
        progress = f"{len(outcomes)}/{len(names)}, {traced} traced"
        print(f"\r{progress}  {outcome.model_type:40.40}", end="", file=sys.stderr)
    print(f"\n{time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        report(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
