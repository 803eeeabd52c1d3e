"""A sweep as a store sees it: skipped, resumed, failed, retried, stopped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from irene.collect.collection_plan import StoredRuns, plan_collection
from irene.dataset.store import Store
from irene.errors import IreneError

from ..work.made_up_tasks import noted
from .conftest import MadeUpWork, collect, made_up_sweep, runs_in
from .made_up_work import CLOCK, DESK, TORCH


def test_every_run_is_measured_once_and_a_rerun_skips_it(log, tmp_path):
    sweep = made_up_sweep("a", "b", lengths=2)
    steps = []
    first = collect(sweep, tmp_path / "store", listener=steps.append)
    assert (first.measured, first.there, first.left) == (4, 0, 0)
    assert [s.event for s in steps if s.event] == ["started", "measured"] * 4
    assert steps[-1].left_s == 0
    assert set(runs_in(tmp_path / "store").values()) == {1}
    again = collect(sweep, tmp_path / "store")
    assert (again.measured, again.there) == (0, 4)
    assert len([line for line in noted(log) if line.startswith("begin")]) == 4
    assert not list((tmp_path / "store" / "collect").glob("*.claim"))


def test_what_was_measured_is_in_the_store(log, tmp_path):
    collect(made_up_sweep("a"), tmp_path / "store")
    (entry,) = Store.open(tmp_path / "store").entries()
    (tree,) = Store.open(tmp_path / "store").trees()
    assert tree.root.energy.joules == 3.0
    assert entry.hardware == "lab"
    assert entry.origin.engine == "local"
    assert entry.origin.collector
    assert entry.origin.software["torch"] == "1.0"


TROUBLES = {
    "kill": "SIGKILL, which the system does when memory runs out",
    "oom": "out of memory: of 8 GiB",
    "cuda-oom": "out of memory: RuntimeError: CUDA error",
    "refuse": "a forward pass needs tokens",
    "exit": "exit code 3: Segmentation of something",
    "nobody": "no model 'nobody'",
    "other-run": "another run came back",
}


def test_failures_are_recorded_with_their_reason_and_the_sweep_goes_on(log, tmp_path):
    sweep = made_up_sweep(*TROUBLES, "a")
    report = collect(sweep, tmp_path / "store")
    assert report.measured == 1
    reasons = {f.spec.model: f.reason for f in report.failures}
    for model, words in TROUBLES.items():
        assert words in reasons[model]
    kept = {
        e.spec.model: e.reason
        for e in Store.open(tmp_path / "store").entries()
        if e.state == "failed"
    }
    assert kept == reasons


def test_a_run_that_takes_too_long_is_ended(log, tmp_path):
    sweep = made_up_sweep("hang", "a", timeout_s=1.5)
    report = collect(sweep, tmp_path / "store")
    assert report.measured == 1
    assert "took longer than 1.5 s" in report.failures[0].reason


def test_failed_runs_are_left_alone_until_they_are_to_be_retried(log, tmp_path):
    sweep, store = made_up_sweep("refuse", "a"), tmp_path / "store"
    collect(sweep, store)
    again = collect(sweep, store)
    assert len(noted(log)) == 3  # the failed run begins, the other begins and ends
    assert [f.reason for f in again.failures] == ["a forward pass needs tokens"]
    retried = collect(sweep, store, retry_failed=True)
    assert len(noted(log)) == 4
    assert len(retried.failures) == 1
    assert sum(runs_in(store, "failed").values()) == 2


def test_a_collection_that_is_stopped_goes_on_later(log, tmp_path):
    sweep, store = made_up_sweep("a", lengths=4), tmp_path / "store"
    stopped = collect(sweep, store, stop=lambda: len(runs_in(store)) >= 2)
    assert stopped.stopped
    assert stopped.measured == 2
    assert stopped.left == 2
    rest = collect(sweep, store)
    assert (rest.there, rest.measured, rest.stopped) == (2, 2, False)


def test_a_full_disk_stops_it_and_loses_nothing(log, tmp_path, monkeypatch):
    sweep, store = made_up_sweep("a", lengths=4), tmp_path / "store"
    collect(made_up_sweep("a", lengths=2), store)
    real = os.fsync

    def full(handle: int) -> None:
        if "manifest" in str(Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(IreneError, match=r"No space left.*same command again"):
            collect(sweep, store)
    assert sum(runs_in(store).values()) >= 2
    rest = collect(sweep, store)
    assert rest.left == 0
    assert not rest.failures
    assert list(runs_in(store).values()) == [1] * 4


def test_a_clock_that_is_off_is_said_and_changes_nothing(log, tmp_path, monkeypatch):
    sweep, store = made_up_sweep("a", lengths=2), tmp_path / "store"
    monkeypatch.setenv(CLOCK, "-7200")
    report = collect(sweep, store)
    (message,) = report.messages
    assert "is behind this one by about 7," in message
    monkeypatch.setenv(CLOCK, "7200")
    more = collect(made_up_sweep("a", lengths=3), store)
    assert (more.there, more.measured) == (2, 1)
    assert "ahead of this one" in more.messages[0]
    assert all(e.origin.duration_s < 7000 for e in Store.open(store).entries())


def test_another_torch_is_said_and_kept_apart(log, tmp_path, monkeypatch):
    store = tmp_path / "store"
    collect(made_up_sweep("a"), store)
    monkeypatch.setenv(TORCH, "2.0")
    report = collect(made_up_sweep("a", lengths=2), store)
    assert report.measured == 1
    assert "torch 2.0" in report.messages[0]
    assert "torch 1.0: kept apart" in report.messages[0]
    names = {e.origin.software_name for e in Store.open(store).entries()}
    assert names == {"torch 1.0", "torch 2.0"}
    known = StoredRuns(Store.open(store), "lab")
    plan = plan_collection(made_up_sweep("a", lengths=3), known, MadeUpWork())
    assert "different software" in plan.notes[0]


def test_another_machine_of_the_same_name_is_refused(log, tmp_path, monkeypatch):
    store = tmp_path / "store"
    collect(made_up_sweep("a"), store)
    monkeypatch.setenv(DESK, "a rack")
    report = collect(made_up_sweep("a", lengths=2), store)
    assert report.measured == 0
    assert "this one (a rack; covers wall)" in report.failures[0].reason


def test_the_plan_learns_from_what_was_measured(log, tmp_path):
    sweep, store = made_up_sweep("a", lengths=3), tmp_path / "store"
    empty = plan_collection(sweep, StoredRuns(None, "lab"), MadeUpWork())
    assert empty.left_s == pytest.approx(0.01 + 0.02 + 0.03)
    assert empty.basis == "guessed from FLOPs"
    collect(made_up_sweep("a", lengths=1), store)
    plan = plan_collection(sweep, StoredRuns(Store.open(store), "lab"), MadeUpWork())
    (entry,) = Store.open(store).entries()
    assert plan.count("measured") == 1
    assert plan.slower == pytest.approx(entry.origin.duration_s / 0.01)
    assert plan.left_s == pytest.approx(plan.slower * 0.05)
    assert "as 1 measured ones say" in plan.basis
