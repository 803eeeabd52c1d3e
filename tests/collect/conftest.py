"""Collections of made-up runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from irene.collect.collection_plan import Report, Step, StoredRuns, plan_collection
from irene.collect.collector import Collector
from irene.collect.measuring import Measuring
from irene.collect.sweep import Measurement, Sweep
from irene.dataset.store import Store
from irene.errors import UsageError
from irene.measure.protocol import MeasureProtocol
from irene.spec import RunSpec
from irene.work.engines.engine import Engine, LocalEngine

from ..work.conftest import log as task_log  # noqa: F401  a fixture
from .made_up_work import FORM, write_form


class MadeUpWork(Measuring):
    """What a collector needs to know of it."""

    call = "tests.collect.made_up_work:measure_made_up"

    def resolve(self, spec: RunSpec) -> RunSpec:
        if spec.model == "nobody":
            raise UsageError("no model 'nobody'")
        return spec

    def guess_s(
        self, specs: Sequence[RunSpec], protocol: MeasureProtocol, device: str
    ) -> dict[str, float]:
        return {spec.digest: spec.tokens / 100 for spec in specs}


@pytest.fixture
def log(task_log: Path, monkeypatch, tmp_path) -> Path:  # noqa: F811
    """Where made-up work says what it does; processes of their own find it."""
    monkeypatch.setenv(FORM, str(tmp_path / "form.json"))
    write_form(tmp_path / "form.json")
    return task_log


def made_up_sweep(*models: str, lengths: int = 1, **how) -> Sweep:
    sizes = [{"batch_size": 1, "seq_len": n} for n in range(1, lengths + 1)]
    specs = [RunSpec(model, **size) for size in sizes for model in models]
    return Sweep("made-up", tuple(specs), "lab", Measurement("quick", **how))


def collect(
    sweep: Sweep,
    path: Path,
    engine: Engine | None = None,
    listener: Callable[[Step], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    retry_failed: bool = False,
) -> Report:
    work = MadeUpWork()
    known = StoredRuns(Store.open(path, create=True), sweep.machine)
    plan = plan_collection(sweep, known, work, retry_failed=retry_failed)
    with engine or LocalEngine() as where:
        return Collector(plan, path, where, work, listener, stop).run()


def runs_in(path: Path, state: str = "measured") -> Counter[str]:
    """How many entries of each run a store has."""
    entries = Store.open(path).entries()
    return Counter(e.spec.digest for e in entries if e.state == state)
