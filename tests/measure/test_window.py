"""Windows under meters whose energy is known, on a clock that the test sets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import irene
from irene.errors import UsageError
from irene.measure.windows import window_session
from irene.measure.windows.window import EnergyWindow, session, window, windows
from irene.measure.windows.window_session import WindowSession, current_session
from irene.meters.channel import NO_VALUE, Channel, SensorLostError

WATTS = 50.0
PERIOD_S = 60.0
"""Longer than any test: samples are taken at the edges of windows alone."""


class Clock:
    """Time that passes when it is told to, and stands still for a thread's sample."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.seen = threading.local()
        self.passing = threading.Lock()

    def __call__(self) -> int:
        self.seen.now_ns = now_ns = self.now_ns
        return now_ns

    def pass_s(self, seconds: float) -> None:
        with self.passing:  # two threads that add at once would set it back
            self.now_ns += round(seconds * 1e9)

    def of_sample_s(self) -> float:
        return self.seen.now_ns * 1e-9


class Counter:
    """A counter of constant power, and beside it a power that grows by 1 W each s."""

    name = "fake"

    def __init__(self, clock: Clock, **channel) -> None:
        self.clock, self.lost, self.closed = clock, False, 0
        fields = {"relative_error": 0.1, **channel}
        self.channels = (
            Channel("fake:counter", "energy_j", "cpu-package", device="cpu", **fields),
            Channel("fake:ramp", "power_w", "gpu-board", counted=False),
            Channel("fake:load", "percent", counted=False),
        )

    def read(self) -> list[float]:
        if self.lost:
            raise SensorLostError("pulled out")
        now_s = self.clock.of_sample_s()
        return [WATTS * now_s, now_s, 30.0]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    made_up = SimpleNamespace(monotonic_ns=clock)
    monkeypatch.setattr("irene.meters.sampling.sampler.time", made_up)
    return clock


@pytest.fixture
def meter(clock: Clock) -> Counter:
    return Counter(clock)


@pytest.fixture
def running(meter: Counter) -> Iterator[WindowSession]:
    with session([meter], PERIOD_S) as opened:
        yield opened


def test_the_energy_of_a_window(running, clock):
    clock.pass_s(3)
    with irene.window("step") as w:
        clock.pass_s(2)
    clock.pass_s(5)
    assert w.energy_j == pytest.approx(2 * WATTS)
    assert (w.energy.low, w.energy.high) == pytest.approx((90.0, 110.0))
    assert w.energy.source == "measured"
    assert w.energy.produced_by == "fake"
    assert w.duration_s == pytest.approx(2)
    assert w.mean_power_w == pytest.approx(WATTS)
    assert w.complete
    assert w.notes == ()


def test_every_channel_is_there(running, clock):
    with window("step") as w:
        clock.pass_s(4)
    began_s = clock.now_ns * 1e-9 - 4
    assert w.channels["fake:ramp"].energy_j == pytest.approx(4 * (began_s + 2))
    assert w.channels["fake:load"].mean == pytest.approx(30)


def test_a_window_that_is_open_says_so(running, clock):
    with window("step") as w:
        assert w.energy is None
        assert w.energy_j is None
        assert w.mean_power_w is None
        assert not w.complete
        assert w.notes == ("the window has not ended",)


def test_children_lie_within_their_parent(running, clock):
    with window("epoch") as epoch:
        clock.pass_s(1)
        for _ in range(3):
            with window("step") as step:
                clock.pass_s(2)
                with window("forward"):
                    clock.pass_s(0.5)
    assert [child.name for child in epoch.children] == ["step"] * 3
    assert [child.name for child in step.children] == ["forward"]
    parts = [child.energy_j for child in epoch.children]
    assert sum(parts) == pytest.approx(3 * 2.5 * WATTS)
    assert epoch.energy_j == pytest.approx(sum(parts) + WATTS)
    with window("apart") as apart:
        clock.pass_s(1)
    assert apart not in epoch.children


def test_an_error_inside_goes_on_and_the_energy_is_known(running, clock):
    outer, w = window("outer"), window("step")

    def fail() -> None:
        with outer, w:
            clock.pass_s(2)
            raise KeyError("its own")

    with pytest.raises(KeyError):
        fail()
    assert w.energy_j == pytest.approx(2 * WATTS)
    with window("next") as following:
        pass
    assert following not in w.children


def test_eight_threads_at_once(running, clock):
    done: list[EnergyWindow] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        for _ in range(20):
            barrier.wait()
            with window(f"outer {number}") as outer, window("inner"):
                clock.pass_s(0.25)
                barrier.wait()
            assert len(outer.children) == 1
            assert outer.children[0].name == "inner"
            done.append(outer)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 160
    for w in done:
        assert w.energy_j == pytest.approx(WATTS * w.duration_s)
        assert w.duration_s > 0
    totals = {total.name: total for total in windows()}
    assert totals["inner"].count == 160
    assert totals["outer 3"].count == 20


def test_windows_of_one_name_are_added_up(running, clock, meter):
    for seconds in (1, 2):
        with window("step"):
            clock.pass_s(seconds)
    meter.lost = True
    with window("step"):
        clock.pass_s(4)
    (total,) = irene.windows()
    assert (total.name, total.count, total.unknown) == ("step", 3, 1)
    assert total.energy.joules == pytest.approx(3 * WATTS)
    assert total.duration_s == pytest.approx(7)


# As a decorator ----------------------------------------------------------------


def test_every_call_of_a_decorated_function_is_a_window(running, clock):
    @irene.window("step")
    def step(seconds: float) -> str:
        """Works."""
        clock.pass_s(seconds)
        return "done"

    assert step.__doc__ == "Works."
    with window("all") as w:
        assert step(1) == "done"
        assert step(seconds=2) == "done"
    assert [child.energy_j for child in w.children] == pytest.approx([WATTS, 2 * WATTS])


def test_tasks_do_not_become_children_of_each_other(running, clock):
    @window("request")
    async def request(name: str) -> str:
        with window(name):
            await asyncio.sleep(0)
            clock.pass_s(1)
        return name

    async def everything() -> list[str]:
        return await asyncio.gather(request("a"), request("b"))

    with window("all") as w:
        assert asyncio.run(everything()) == ["a", "b"]
    assert [child.name for child in w.children] == ["request", "request"]
    names = [[inner.name for inner in child.children] for child in w.children]
    assert names == [["a"], ["b"]]


def test_a_generator_is_refused():
    with pytest.raises(UsageError, match="generator"):

        @window("step")
        def step():
            yield 1

    with pytest.raises(UsageError, match="generator"):

        @window("step")
        async def other():
            yield 1


# Begin and end -------------------------------------------------------------------


def test_windows_that_overlap(running, clock):
    running.begin("a")
    clock.pass_s(1)
    running.begin("b")
    clock.pass_s(1)
    a = running.end("a")
    clock.pass_s(1)
    b = running.end("b")
    assert (a.energy_j, b.energy_j) == pytest.approx((100, 100))
    assert (a.children, b.children) == ([], [])


def test_begin_and_end_belong_together(running):
    running.begin("a")
    with pytest.raises(UsageError, match="'a' has begun and not ended"):
        running.begin("a")
    with pytest.raises(UsageError, match="no window 'b' has begun"):
        running.end("b")
    running.end("a")
    running.begin("a")


def test_a_window_is_used_once(running):
    w = window("step")
    with w:
        pass
    with pytest.raises(UsageError, match="used before"):
        w.start()


# What is not known -----------------------------------------------------------------


def test_a_sensor_that_is_lost_means_no_energy(running, clock, meter):
    with window("step") as w:
        clock.pass_s(1)
        meter.lost = True
        with window("inside"):
            pass
        clock.pass_s(2)
        meter.lost = False
    assert w.energy is None
    assert w.duration_s == pytest.approx(3)
    assert any("fake:counter was known for" in note for note in w.notes)
    assert "fake: pulled out" in w.notes
    clock.pass_s(2)
    with window("settle"):  # the sensor is asked again after a second
        pass
    with window("later") as later:
        clock.pass_s(1)
    assert later.energy_j == pytest.approx(WATTS)


def test_a_value_that_is_missing_means_no_energy(running, clock, meter, monkeypatch):
    monkeypatch.setattr(meter, "read", lambda: [NO_VALUE] * 3)
    with window("step") as w:
        clock.pass_s(1)
    assert w.energy is None


def test_shorter_than_the_sensor_is_flagged_with_its_interval(clock):
    with session([Counter(clock, resolution_s=0.1)], PERIOD_S):
        clock.pass_s(1)
        with window("short") as w:
            clock.pass_s(0.04)
    assert w.energy_j == pytest.approx(0.04 * WATTS)
    assert w.energy.low == 0
    assert w.energy.high >= (0.04 + 0.1) * WATTS
    assert "shorter (0.04 s) than a step of fake:counter (0.1 s)" in w.notes[0]


def test_a_counter_that_has_not_moved_is_not_zero(clock):
    counter = Counter(clock, resolution_s=0.1)
    with session([counter], PERIOD_S):
        counter.read = lambda: [7.0, 0.0, 0.0]
        with window("settle"):
            clock.pass_s(0.04)
        with window("short") as w:
            clock.pass_s(0.04)
    assert w.energy is None
    assert "nothing new" in w.notes[0]


def test_no_meter_with_energy(clock):
    class Load(Counter):
        channels = property(  # type: ignore[assignment]
            lambda self: (Channel("fake:load", "percent", counted=False),),
            lambda self, value: None,
        )

        def read(self) -> list[float]:
            return [30.0]

    with session([Load(clock)], PERIOD_S), window("step") as w:
        clock.pass_s(1)
    assert w.energy is None
    assert "no meter gives energy" in w.notes[0]
    assert w.channels["fake:load"].mean == 30


def test_an_estimate_is_labelled(clock):
    guess = Counter(clock, source="estimated", note="a guess")
    with session([guess], PERIOD_S), window("step") as w:
        clock.pass_s(1)
    assert w.energy.source == "estimated"
    assert w.notes == ("a guess",)


def test_a_session_that_ends_first(clock, meter):
    with session([meter], PERIOD_S) as opened:
        w = opened.begin("step")
        clock.pass_s(1)
    w.stop()
    assert w.energy is None
    assert w.notes == ("its session was closed before it ended",)
    assert meter.closed == 1


# Sessions ----------------------------------------------------------------------------


def test_windows_outside_a_session_have_one_of_their_own(clock, meter, monkeypatch):
    monkeypatch.setattr(window_session, "LINGER_S", 0.0)
    monkeypatch.setattr("irene.meters.finding.open_meters", lambda _: [meter])
    monkeypatch.setattr(window_session, "_CURRENT", [])
    with irene.window("step") as w:
        clock.pass_s(1)
    assert w.energy_j == pytest.approx(WATTS)
    timer = current_session()._timer
    if timer is not None:
        timer.join()
    assert meter.closed == 1
    assert current_session().channels == ()


def test_the_inner_session_is_used(clock, meter):
    other = Counter(clock)
    with session([meter], PERIOD_S) as outer:
        with session([other], PERIOD_S) as inner:
            assert current_session() is inner
            with window("step"):
                clock.pass_s(1)
            assert [t.name for t in inner.windows()] == ["step"]
        assert current_session() is outer
        assert outer.windows() == []
        assert other.closed == 1
        assert meter.closed == 0


def test_an_unknown_meter_is_a_clear_error():
    with pytest.raises(UsageError, match="no meter 'sundial'"):
        session(["sundial"]).window("step").start()


def test_samples_are_kept_where_asked(tmp_path):
    from irene.meters.sampling.recording import read_recording

    path = tmp_path / "samples.csv"
    with session(["proc"], 0.05, path), window("step"):
        time.sleep(0.02)
    assert len(read_recording(path)) >= 4


# Devices ------------------------------------------------------------------------------


def fake_torch(calls: list[object], error: str = "") -> SimpleNamespace:
    def synchronize(device: int) -> None:
        calls.append(device)
        if error:
            raise RuntimeError(error)

    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 0,
        device_count=lambda: 4,
        memory_reserved=lambda i: 1024 * (i == 2),
        synchronize=synchronize,
    )
    return SimpleNamespace(cuda=cuda)


def test_devices_in_use_are_waited_for(running, monkeypatch):
    calls: list[object] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(calls))
    with window("step"):
        assert calls == [0, 2]
    assert calls == [0, 2, 0, 2]


def test_a_device_that_fails_does_not_hide_the_programs_error(
    running, clock, monkeypatch
):
    broken = fake_torch([], "CUDA error: device-side assert\nmore")
    monkeypatch.setitem(sys.modules, "torch", broken)
    w = window("step")

    def fail() -> None:
        with w:
            clock.pass_s(1)
            raise KeyError("its own")

    with pytest.raises(KeyError):
        fail()
    assert w.notes[0] == "a GPU could not be waited for: CUDA error: device-side assert"
    assert w.energy_j == pytest.approx(WATTS)


FORKED = """
import os, sys
import irene
with irene.session(["proc", "estimate"]) as opened:
    with irene.window("parent") as outer:
        child = os.fork()
        if child == 0:
            outer.stop()
            with opened.window("child") as inner:
                sum(range(100_000))
            good = inner.energy is not None and "another process" in outer.notes[0]
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
    assert outer.energy is not None
print(os.waitstatus_to_exitcode(status), "torch" in sys.modules)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
def test_a_forked_process_has_windows_of_its_own():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.split() == ["0", "False"], done.stderr


def test_meters_of_a_session_that_cannot_sample_are_closed(monkeypatch):
    opened = Counter(Clock())
    monkeypatch.setattr("irene.meters.finding.open_meters", lambda *_: [opened])
    with pytest.raises(UsageError, match="too short"):
        WindowSession(["proc"], period_s=1e-6).window("w").start()
    assert opened.closed
