"""The engines: the same tasks, the same results, wherever they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from irene.dataset.store import Store
from irene.errors import UsageError
from irene.work.bounds import Bounds
from irene.work.engines.engine import Engine, LocalEngine
from irene.work.engines.ray_engine import RayEngine, RaySettings
from irene.work.engines.slurm_engine import SlurmEngine, SlurmSettings
from irene.work.task import Outcome, Task, find_work

from ..collect.conftest import collect, made_up_sweep
from ..collect.made_up_work import FORM, write_form
from .conftest import ROOT
from .made_up_tasks import HERE, noted

ECHO = f"{HERE}:echo"
NEVER = "/no/such/file"


def task(words: str, **argument) -> Task:
    return Task(words, ECHO, {"words": words, **argument})


def all_outcomes(engine: Engine, count: int) -> list[Outcome]:
    found: list[Outcome] = []
    while len(found) < count:
        found += engine.wait(1.0)
    return found


def test_a_task_survives_its_way_to_another_machine():
    one = Task("a", ECHO, {"words": "×", "n": [1, None]}, Bounds(wall_s=2.5))
    assert Task.from_json(one.to_json()) == one


@pytest.mark.parametrize("path", ["no.such:thing", "json:nothing", "json", "json:"])
def test_a_function_that_is_not_there_is_refused(path):
    with pytest.raises(UsageError, match="no function"):
        find_work(path)


def test_local_tasks_run_one_at_a_time(log):
    with LocalEngine() as engine:
        for words in "abc":
            engine.submit(task(words))
        outcomes = all_outcomes(engine, 3)
    assert [o.payload for o in outcomes] == [b"a", b"b", b"c"]
    assert outcomes[0].place["host"]
    assert outcomes[0].place["torch"][0].isdigit()
    kinds = [line.split()[0] for line in noted(log)]
    assert kinds == ["begin", "end"] * 3
    assert len({line.split()[2] for line in noted(log)}) == 3


def test_what_is_cancelled_ends(log):
    with LocalEngine() as engine:
        engine.submit(task("long", until=NEVER))
        while not noted(log):
            assert engine.wait(0.01) == []
        engine.cancel()
        assert engine.wait(0.0) == []
    pid = int(noted(log)[0].split()[2])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# Slurm ------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path) -> SlurmSettings:
    pytest.importorskip("submitit", reason="needs pip install 'irene-energy[slurm]'")
    return SlurmSettings(cluster="local", folder=str(tmp_path / "jobs"), retries=1)


def test_slurm_jobs_run_tasks(log, slurm):
    with SlurmEngine(slurm) as engine:
        assert engine.window == 1
        engine.submit(task("a"))
        engine.submit(Task("b", "no.such:thing", {}))
        outcomes = {o.task: o for o in all_outcomes(engine, 2)}
    assert outcomes["a"].payload == b"a"
    assert outcomes["b"].fault == "refused"


def kill_whole(job: subprocess.Popen[bytes]) -> None:
    """Kill a job and the process that runs its task, which takes its own along."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text()
    for each in (job.pid, *map(int, children.split())):
        os.kill(each, signal.SIGKILL)
    job.wait(60)


def test_a_slurm_job_whose_machine_goes_away_is_submitted_again(
    log, slurm, monkeypatch, tmp_path
):
    # How long submitit waits for a result that a slow file system may still bring.
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 1)
    with SlurmEngine(slurm) as engine:
        engine.submit(task("a", until=str(tmp_path / "gate")))
        while not noted(log):
            assert engine.wait(0.05) == []
        kill_whole(engine._jobs[0].handle._process)
        (tmp_path / "gate").touch()
        outcomes = all_outcomes(engine, 1)
    assert outcomes[0].payload == b"a"
    assert len([line for line in noted(log) if "begin" in line]) == 2


def test_a_job_that_dies_is_noticed_where_slurm_keeps_no_accounts(
    monkeypatch, tmp_path
):
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, says in {
        "sbatch": "echo Submitted batch job 7",  # and its job is killed at once
        "squeue": "true",
        "sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1",
        "srun": "true",
    }.items():
        (commands / name).write_text(f"#!/bin/sh\n{says}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    for wait in ("SLOW_FILES_S", "QUEUE_S"):
        monkeypatch.setattr(f"irene.work.engines.slurm_engine.{wait}", 0.0)
    settings = SlurmSettings(cluster="slurm", folder=str(tmp_path / "jobs"), retries=0)
    with SlurmEngine(settings) as engine:
        engine.submit(task("a"))
        (outcome,) = all_outcomes(engine, 1)
    assert outcome.fault == "lost"
    assert "left the queue without a result" in outcome.problem


# Ray --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[object]:
    """A head and two machines of the kind `lab`, in one test."""
    ray = pytest.importorskip("ray", reason="needs pip install 'irene-energy[ray]'")
    utils = pytest.importorskip("ray.cluster_utils")
    folder = tmp_path_factory.mktemp("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("MADE_UP_LOG", str(folder / "log"))
        patch.setenv("MADE_UP_FORM", str(folder / "form.json"))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        quick = {"health_check_period_ms": 500, "health_check_initial_delay_ms": 0}
        head = {"num_cpus": 1, "_system_config": quick}
        made = utils.Cluster(initialize_head=True, head_node_args=head)
        made.log = folder / "log"
        made.form = folder / "form.json"
        made.machines = [made.add_node(num_cpus=1, resources={"lab": 1}) for _ in "ab"]
        try:
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.mark.xdist_group("ray")
def test_a_kind_of_machine_that_a_cluster_lacks_is_told_once(cluster):
    settings = RaySettings(cluster.address, resources={"nowhere": 1})
    with RayEngine(settings) as engine:
        assert engine.news() == []
        engine.submit(Task("lost", "tests.work.made_up_tasks:nothing", {}))
        told = "waiting: no machine of the Ray cluster has CPU 1, nowhere 1"
        assert [engine.news(), engine.news()] == [[told], []]
    with RayEngine(RaySettings(cluster.address, resources={"lab": 1})) as engine:
        engine.submit(Task("found", "tests.work.made_up_tasks:nothing", {}))
        assert engine.news() == []


@pytest.mark.xdist_group("ray")
def test_a_ray_machine_that_dies_costs_nothing_but_time(log, cluster, tmp_path):
    names, gate = ["t0", "t1", "t2", "t3"], tmp_path / "gate"
    settings = RaySettings(cluster.address, resources={"lab": 1}, retries=3)
    with RayEngine(settings) as engine:
        for name in names:
            engine.submit(task(name, until=str(gate)))
        while len(noted(cluster.log)) < 2:  # both machines are at work
            assert engine.wait(0.02) == []
        cluster.remove_node(cluster.machines.pop(), allow_graceful=False)
        processes = [Path(f"/proc/{line.split()[2]}") for line in noted(cluster.log)]
        while all(process.exists() for process in processes):
            assert engine.wait(0.02) == []
        gate.touch()
        outcomes = all_outcomes(engine, len(names))
    assert Counter(o.task for o in outcomes) == Counter(names)
    assert all(o.payload.decode() == o.task for o in outcomes)
    begun = Counter(line.split()[1] for line in noted(cluster.log) if "begin" in line)
    assert sorted(begun.values()) == [1, 1, 1, 2]  # what was lost was done again


@pytest.mark.xdist_group("ray")
def test_the_same_sweep_on_three_engines_gives_the_same_entries(
    log, cluster, slurm, tmp_path, monkeypatch
):
    monkeypatch.setenv(FORM, str(cluster.form))
    write_form(cluster.form)
    engines = {
        "local": LocalEngine(),
        "ray": RayEngine(RaySettings(cluster.address, resources={"lab": 1})),
        "slurm": SlurmEngine(slurm),
    }
    sweep = made_up_sweep("a", "refuse", lengths=2)
    told = {}
    for name, engine in engines.items():
        report = collect(sweep, tmp_path / name, engine)
        assert (report.measured, len(report.failures)) == (2, 2), report
        store = Store.open(tmp_path / name)
        assert {e.origin.engine for e in store.entries()} == {name}
        told[name] = (
            sorted((e.spec.digest, e.state, e.reason) for e in store.entries()),
            sorted(tree.to_json() for tree in store.trees()),
        )
    assert told["local"] == told["ray"] == told["slurm"]


def test_missing_extras_are_named(monkeypatch):
    from irene.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"irene-energy\[ray\]"):
        RayEngine()
    with pytest.raises(MissingExtraError, match=r"irene-energy\[slurm\]"):
        SlurmEngine()
