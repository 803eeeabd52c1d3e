"""Learning the machines of a cluster: one node of every kind, each under its name.

A file names the kinds, and says where a node of each is found, as a sweep does:

    a100: {kind: slurm, slurm: {partition: gpu, gpus: 1}}
    epyc: {kind: ray, ray: {resources: {epyc: 1}}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from irene.collect.located import read_located
from irene.collect.sweep import engine_settings
from irene.errors import FormatError
from irene.predict.machines.finding import keep_machine
from irene.predict.machines.learned.learned_machine import LearnedMachine
from irene.work.bounds import Bounds
from irene.work.engines import EngineSettings, make_engine
from irene.work.engines.engine import Engine
from irene.work.task import Outcome, Task, report

WORK = "irene.collect.fleet:learn_here"
LIMIT_S = 3 * 3600.0
"""A node that has not been learned by then is given up, s."""
POLL_S = 0.25


class LearnedNode(NamedTuple):
    """What became of a kind of node: a machine of its name, or why there is none."""

    name: str
    path: Path | None
    host: str
    problem: str = ""


def read_nodes(path: Path) -> dict[str, EngineSettings]:
    """The kinds of nodes that a file names."""
    document = read_located(path)
    if not isinstance(document.value, dict):
        document.refuse("name each kind of node; write `a100: {kind: slurm}` lines")
    found: dict[str, EngineSettings] = {}
    for name, where in document.value.items():
        found[name] = engine_settings(where)
    return found


def learn_here(argument: Mapping[str, Any]) -> bytes:
    """Learn the machine that a task is on, by `plan`, `name` and `device`."""
    from irene.collect.learning import learn

    def tell(done_s: float, total_s: float, what: str) -> None:
        report(round(done_s), round(total_s), what)

    found = learn(**argument, keep=False, tell=tell)
    return json.dumps(found.machine.to_dict()).encode()


def learn_nodes(
    kinds: Mapping[str, EngineSettings],
    plan: str,
    device: str = "auto",
    tell: Callable[[str], None] = lambda words: None,
    work: str = WORK,
) -> Iterator[LearnedNode]:
    """Learn a node of every kind, all at once where the cluster has room; register."""
    with ExitStack() as stack:
        open_at: dict[str, Engine] = {}
        for name, settings in kinds.items():
            engine = stack.enter_context(make_engine(settings))
            argument = {"plan": plan, "name": name, "device": device}
            engine.submit(Task(name, work, argument, Bounds(wall_s=LIMIT_S)))
            open_at[name] = engine
        while open_at:
            for name, engine in list(open_at.items()):
                for outcome in engine.wait(POLL_S):
                    del open_at[outcome.task]
                    yield _kept(outcome)
                for news in engine.news():
                    tell(f"{name}: {news}")


def _kept(outcome: Outcome) -> LearnedNode:
    host = outcome.place.get("host", "")
    if outcome.payload is None:
        return LearnedNode(outcome.task, None, host, outcome.reason)
    try:
        machine = LearnedMachine.from_dict(json.loads(outcome.payload))
    except (ValueError, FormatError) as error:
        return LearnedNode(outcome.task, None, host, f"no machine came back: {error}")
    return LearnedNode(outcome.task, keep_machine(machine), host)
