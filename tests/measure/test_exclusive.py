"""Real-time priority for the length of a block."""

from __future__ import annotations

import os
import threading

import pytest

from irene.errors import UsageError
from irene.measure.alone import target
from irene.measure.alone.target import check_exclusive, exclusively
from irene.measure.api import measure

from .made_up_nodes import BRISK, Stack, SteadyMeter, stack_input

linux = pytest.mark.skipif(
    not hasattr(os, "sched_setscheduler"), reason="only Linux has real-time priority"
)


@pytest.fixture
def allowed() -> None:
    try:
        check_exclusive()
    except UsageError as error:
        pytest.skip(str(error))


def policies(thread: int) -> tuple[int, int]:
    return os.sched_getscheduler(0), os.sched_getscheduler(thread)


@linux
def test_all_threads_get_it_and_give_it_back(allowed):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert thread.native_id is not None
    with exclusively(True):
        inside = policies(thread.native_id)
    after = policies(thread.native_id)
    stop.set()
    thread.join()
    assert inside == (os.SCHED_RR, os.SCHED_RR)
    assert after == (os.SCHED_OTHER, os.SCHED_OTHER)


@linux
def test_nothing_changes_if_it_is_not_wanted():
    with exclusively(False):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@linux
def test_a_measurement_says_that_it_had_the_cpus_for_itself(allowed):
    tree = measure(
        Stack(), stack_input(), protocol=BRISK, meters=[SteadyMeter()], exclusive=True
    )
    assert tree.provenance["priority"] == "real-time"
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@linux
def test_where_it_is_not_allowed_it_says_so(monkeypatch):
    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(UsageError, match="run as root"):
        check_exclusive()


def test_other_systems_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(target, "TASKS", tmp_path / "nothing")
    with pytest.raises(UsageError, match="needs Linux"):
        check_exclusive()
