"""Folds: rounds of a cross-validation on an engine, as exact as in this process.

Trees are traced first, some of them per task. Table and traces then go into a file that
every machine must see, and each round is a task that reads it: nothing is read or
traced twice. What is unpickled is what a process of this same run wrote. The caller
puts the rounds together, so that it makes no difference where they were predicted.
Nothing heavy is imported here before a task has set the number of threads, on which the
last digits of a matrix product depend.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from irene.errors import FormatError, IreneError, UsageError
from irene.work.engines import EngineSettings, make_engine
from irene.work.engines.engine import Engine, LocalEngine
from irene.work.engines.slurm_engine import SlurmSettings
from irene.work.task import Task

if TYPE_CHECKING:
    from irene.dataset.table import NodeTable, TreeKey
    from irene.predict.exams.crossvalidation import Predicted, PredictRounds, Round
    from irene.predict.learning.join import Joiner, Progress
    from irene.work.engines import EngineKind

POLL_S = 0.5
TREES_PER_TASK = 16
"""At least so many trees are traced by one task, which takes seconds to begin."""
TASKS_PER_JOB = 2
"""Tasks of tracing per process, so that none waits long for the last one."""
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def make_folds(kind: EngineKind, jobs: int | None = None) -> EngineFolds:
    """Rounds on an engine by name; nothing is started yet.

    Without a number of jobs there is one per CPU of this machine, or as many as a
    cluster takes.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"there must be at least one job, got {jobs}")
    if kind == "local":
        return EngineFolds(LocalEngine(jobs or _cpus()), jobs)
    shared = SlurmSettings(exclusive=False)  # a machine: nothing is measured
    return EngineFolds(make_engine(EngineSettings(kind, slurm=shared)), jobs)


class EngineFolds:
    """Traces trees and predicts rounds on an engine, which opens when it is needed."""

    def __init__(self, engine: Engine, jobs: int | None = None) -> None:
        self._engine = engine
        self._jobs = jobs
        self._open = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Nothing is started before it is needed."""
        return self

    def __exit__(self, *error: object) -> None:
        """End everything that runs, and remove the files."""
        self._stack.close()

    def trace(
        self, table: NodeTable, joiner: Joiner, progress: Progress | None = None
    ) -> None:
        """Trace the trees of a table that have not been traced yet."""
        keys = joiner.untraced(table)
        if not keys:
            return
        keys.sort(key=lambda key: table.models.index(key.model))
        self._begin()
        parts = self._shared_out(keys)
        tasks = [_trace_task(i, joiner, some) for i, some in enumerate(parts)]
        for payload in self._results(tasks, "tracing {}", progress):
            joiner.take_over(pickle.loads(payload))

    def rounds(
        self,
        table: NodeTable,
        joiner: Joiner,
        method: str,
        options: Mapping[str, Any],
    ) -> PredictRounds:
        """What predicts rounds on the engine, for `crossvalidate` and `train`."""

        def predict(
            rounds: Sequence[Round], progress: Progress | None = None
        ) -> list[Predicted]:
            if not rounds:
                return []
            if _needs_traces(method, options):
                self.trace(table, joiner, progress)
            common = {
                **self._put_down(table, joiner),
                "method": method,
                "options": {k: v for k, v in options.items() if k != "seed"},
            }
            tasks = [_fold_task(i, each, common) for i, each in enumerate(rounds)]
            payloads = self._results(tasks, "holding out {}", progress)
            return [pickle.loads(payload) for payload in payloads]

        return predict

    def _begin(self) -> None:
        if not self._open:
            self._stack.enter_context(self._engine)
            self._open = True

    @property
    def _window(self) -> int:
        return self._jobs or self._engine.window

    def _shared_out(self, keys: Sequence[TreeKey]) -> list[Sequence[TreeKey]]:
        """Trees by task; those of one model together, as they have parts in common."""
        size = max(TREES_PER_TASK, -(-len(keys) // (TASKS_PER_JOB * self._window)))
        return [keys[start : start + size] for start in range(0, len(keys), size)]

    def _put_down(self, table: NodeTable, joiner: Joiner) -> dict[str, str]:
        """Write table and traces to a file, for all tasks."""
        self._begin()
        # Machines of a cluster see the folder that the command is given in, if any.
        where = None if self._engine.name == "local" else Path.cwd()
        folder = Path(tempfile.mkdtemp(prefix=".irene-folds-", dir=where))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        content = pickle.dumps((table, joiner), pickle.HIGHEST_PROTOCOL)
        path = folder / "trees.pickle"
        path.write_bytes(content)
        return {"trees": str(path), "sha256": hashlib.sha256(content).hexdigest()}

    def _results(
        self, tasks: Sequence[Task], doing: str, progress: Progress | None
    ) -> list[bytes]:
        """What the tasks return, in their order; the first that fails ends all."""
        waiting = deque(tasks)
        found: dict[str, bytes] = {}
        try:
            while len(found) < len(tasks):
                while waiting and len(tasks) - len(waiting) - len(found) < self._window:
                    self._engine.submit(waiting.popleft())
                for outcome in self._engine.wait(POLL_S):
                    about = outcome.task.partition(" ")[2]
                    if outcome.payload is None:
                        why = outcome.reason
                        raise IreneError(f"{doing.format(about)} failed: {why}")
                    found[outcome.task] = outcome.payload
                    if progress is not None:
                        progress(len(found), len(tasks), about)
        finally:
            self._engine.cancel()
        return [found[task.name] for task in tasks]


def _fold_task(place: int, each: Round, common: Mapping[str, Any]) -> Task:
    argument = {
        **common,
        "threads": _threads(),
        "seed": each.seed,
        "held_out": each.fold.held_out,
        "train": each.fold.train.tolist(),
        "test": each.fold.test.tolist(),
    }
    return Task(f"{place} {each.name}", "irene.collect.folds:predict_fold", argument)


def _trace_task(place: int, joiner: Joiner, keys: Sequence[TreeKey]) -> Task:
    models = {key.model for key in keys}
    argument = {
        "threads": _threads(),
        "keys": [list(key) for key in keys],
        "own": None if joiner.own is None else asdict(joiner.own),
        "configs": {
            name: str(Path(config).absolute())
            for name, config in joiner.configs.items()
            if name in models
        },
    }
    first, last = (f"{k.model} {k.batch_size}×{k.seq_len}" for k in (keys[0], keys[-1]))
    name = f"{place} {first} to {last}"
    return Task(name, "irene.collect.folds:trace_trees", argument)


def _needs_traces(method: str, options: Mapping[str, Any]) -> bool:
    from irene.predict import make_method
    from irene.predict.learning.training_runs import needs_traces

    return needs_traces(make_method(method, **options))


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def _threads() -> dict[str, str]:
    """How many threads the linear algebra of this process may use."""
    given = {name: os.environ[name] for name in THREADS if name in os.environ}
    return given or {"OMP_NUM_THREADS": str(_cpus())}


# In the process of a task -----------------------------------------------------


def trace_trees(argument: Mapping[str, Any]) -> bytes:
    """Trace trees; the argument has `keys`, `configs`, `own` and `threads`."""
    _use_threads(argument)
    from irene.dataset.table import TreeKey
    from irene.predict.learning.join import Joiner, OwnRun

    for config in argument["configs"].values():
        _check_seen(Path(config))
    own = argument["own"]
    joiner = Joiner(
        configs=dict(argument["configs"]), own=None if own is None else OwnRun(**own)
    )
    joiner.trace_all(TreeKey(*key) for key in argument["keys"])
    return pickle.dumps(joiner, pickle.HIGHEST_PROTOCOL)


def predict_fold(argument: Mapping[str, Any]) -> bytes:
    """Predict one round from `trees`, a file, if it has the `sha256` that is told."""
    _use_threads(argument)
    import numpy as np

    from irene.predict import make_method
    from irene.predict.exams.crossvalidation import predict_round
    from irene.predict.exams.splits import Fold
    from irene.predict.learning.training_runs import with_joiner

    table, joiner = _pick_up(Path(argument["trees"]), argument["sha256"])
    options = {**argument["options"], "seed": argument["seed"]}
    method = with_joiner(make_method(argument["method"], **options), joiner)
    train, test = (np.array(argument[n], dtype=np.int64) for n in ("train", "test"))
    fold = Fold(argument["held_out"], train, test)
    return pickle.dumps(predict_round(table, method, fold), pickle.HIGHEST_PROTOCOL)


def _use_threads(argument: Mapping[str, Any]) -> None:
    """As many as where the task comes from: the last digits depend on it."""
    for name in THREADS:
        os.environ.pop(name, None)
    os.environ.update(argument["threads"])


def _check_seen(path: Path) -> None:
    if not path.exists():
        raise UsageError(
            f"{path} is not on this machine: all machines must see that folder"
        )


def _pick_up(path: Path, sha256: str) -> tuple[NodeTable, Joiner]:
    _check_seen(path)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise FormatError(f"{path} is not the file that this round is of")
    table, joiner = pickle.loads(content)  # which this same run wrote
    return table, joiner
