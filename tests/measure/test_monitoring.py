"""Whole programs under a meter of known power."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.errors import MeterError, UsageError
from irene.measure.windows.monitored import Monitored
from irene.measure.windows.monitoring import CommandError, HeldProgram, monitor
from irene.measure.windows.window import session
from irene.meters.channel import Channel
from irene.meters.cpu.kernel_files import Roots
from irene.meters.cpu.rapl import open_rapl
from irene.meters.sampling.recording import Recording, read_recording
from tests.meters.simulated_machine import (
    SimulatedMachine,
    SimulatedZone,
    constant,
)

from .made_up_power import DRAM_WATTS, WATTS, made_up_meter

PERIOD_S = 0.02
LOOSE = 0.5  # a busy machine may read a meter a while after it looked at the clock
WORK = "import time; time.sleep(0.15)"


@pytest.fixture
def meter(tmp_path: Path) -> str:
    return made_up_meter(tmp_path / "power.csv")


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_the_energy_of_a_program(meter):
    found = monitor(python(WORK), meters=[meter], period_s=PERIOD_S)
    energy = found.energy
    assert energy is not None
    assert found.exit_code == 0
    parts = {window.channel.name: window for window in found.windows}
    both = [window for window in found.windows if window.channel.in_total]
    assert energy.joules == pytest.approx(sum(window.energy_j for window in both))
    assert found.mean_power_w == pytest.approx(energy.joules / found.duration_s)
    assert found.mean_power_w == pytest.approx(WATTS + DRAM_WATTS, rel=LOOSE)
    assert energy.source == "measured"
    assert energy.high - energy.joules == pytest.approx(
        0.02 * parts["sim:package"].energy_j, rel=0.01
    )
    assert parts["sim:core"].mean == pytest.approx(20, rel=LOOSE)
    assert parts["sim:load"].mean == pytest.approx(40)


def test_the_program_begins_when_it_is_watched(meter, tmp_path):
    """Nothing of it happens before the first sample, nor after the last."""
    told = tmp_path / "told"
    program = (
        "import time, pathlib; begin = time.monotonic_ns(); time.sleep(0.05);"
        f"pathlib.Path({str(told)!r}).write_text(f'{{begin}} {{time.monotonic_ns()}}')"
    )
    found = monitor(python(program), meters=[meter], period_s=PERIOD_S)
    begin_ns, end_ns = map(int, told.read_text().split())
    assert found.begin_ns < begin_ns < end_ns < found.end_ns
    assert found.recording.time_ns[0] <= found.begin_ns
    assert found.recording.time_ns[-1] >= found.end_ns


def test_the_load_of_the_whole_family(meter):
    busy = "import os; os.system('i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done')"
    found = monitor(python(busy), meters=[meter, "proc"], period_s=PERIOD_S)
    names = {window.channel.name for window in found.windows}
    assert {"proc:cpu", "proc:process_cpu", "proc:process_mem"} <= names
    assert found.cpu_s > 0


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
        ("import os; os.kill(os.getpid(), 15)", 128 + 15),
    ],
)
def test_exit_codes_are_those_of_a_shell(meter, program, code):
    found = monitor(python(program), meters=[meter], period_s=PERIOD_S)
    assert found.exit_code == code
    assert found.duration_s > 0


def test_a_socket_that_cannot_be_read_is_named_as_missing(tmp_path):
    """Two sockets of 90 W and 170 W: what one of them says is not the machine's."""
    zones = [
        SimulatedZone("intel-rapl:0", "package-0", constant(90.0)),
        SimulatedZone("intel-rapl:1", "package-1", constant(170.0)),
    ]
    machine = SimulatedMachine(tmp_path, zones)
    machine.garble("intel-rapl:1", b"?")
    with session([open_rapl(Roots(machine.root))]) as meters:
        with meters.window("work") as window:
            machine.advance(2.0)
        assert window.energy.joules == pytest.approx(180.0, rel=1e-3)
        assert window.energy.produced_by == "rapl without rapl:package-1"
        assert "rapl:package-1 is missing in the total" in window.notes[0]
        assert not window.complete
    machine.close()


def test_a_zone_that_never_moves_leaves_a_curve_of_the_others() -> None:
    channels = (
        Channel("rapl:package-0", "energy_j", "cpu-package", resolution_s=0.001),
        Channel("rapl:dram", "energy_j", "dram", resolution_s=0.001),
    )
    time_ns = np.arange(101, dtype=np.int64) * 100_000_000
    values = np.column_stack((np.arange(101) * 9.0, np.zeros(101)))
    recording = Recording(channels, time_ns, values, 0.1, ((0, 0),))
    found = Monitored((), 0, 0, int(time_ns[-1]), math.nan, recording)
    assert found.energy is not None
    assert found.energy.produced_by == "rapl without rapl:dram"
    assert found.total_power_w == pytest.approx(np.full(100, 90.0), rel=1e-3)


@pytest.mark.parametrize("room", [0, 2000])
def test_a_full_disk_costs_the_samples_and_never_the_energy(meter, tmp_path, room):
    """The sampler may write so many bytes to a file; its sums need none."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room},) * 2)"
    program = f"""
import sys
from pathlib import Path
from irene.measure.windows.monitoring import monitor
{limit}
found = monitor(
    [sys.executable, "-c", {WORK!r}], meters=[{meter!r}], period_s=0.001,
    path=Path({str(tmp_path / "samples.csv")!r}),
)
print(found.energy.joules / found.duration_s)
print(*found.notes)
"""
    told = subprocess.run(python(program), check=True, capture_output=True, text=True)
    power_w, notes = told.stdout.splitlines()
    assert float(power_w) == pytest.approx(WATTS + DRAM_WATTS, rel=LOOSE)
    assert "File too large" in notes


def test_a_program_that_is_not_there(meter, tmp_path):
    with pytest.raises(CommandError, match="no program 'no-such-program'") as caught:
        monitor(["no-such-program"], meters=[meter], period_s=PERIOD_S)
    assert caught.value.exit_code == 127
    with pytest.raises(CommandError, match="cannot run") as caught:
        monitor([str(tmp_path)], meters=[meter], period_s=PERIOD_S)
    assert caught.value.exit_code == 126


def test_a_meter_that_is_not_there_stops_the_program_from_starting(tmp_path):
    told = tmp_path / "told"
    program = f"open({str(told)!r}, 'w')"
    with pytest.raises(MeterError, match="sundial"):
        monitor(python(program), meters=["sundial"])
    assert not told.exists()


def test_without_fork_as_on_windows(meter, tmp_path, monkeypatch):
    """A program that cannot be held begins after the first sample, and is watched."""
    monkeypatch.delattr(os, "fork")
    found = monitor(python(WORK), meters=[meter], period_s=PERIOD_S)
    assert found.exit_code == 0
    assert found.duration_s > 0.15
    assert found.mean_power_w == pytest.approx(WATTS + DRAM_WATTS, rel=LOOSE)
    assert math.isnan(found.cpu_s)
    with pytest.raises(CommandError, match="no program 'no-such-program'") as caught:
        monitor(["no-such-program"], meters=[meter], period_s=PERIOD_S)
    assert caught.value.exit_code == 127


def test_a_program_or_a_time():
    with pytest.raises(UsageError, match="--seconds"):
        monitor()
    with pytest.raises(UsageError, match="--seconds"):
        monitor(["true"], seconds=1)


def test_watching_the_machine(meter):
    found = monitor(seconds=0.1, meters=[meter], period_s=PERIOD_S)
    assert found.command == ()
    assert found.title == "this machine"
    assert found.mean_power_w == pytest.approx(WATTS + DRAM_WATTS, rel=LOOSE)
    assert math.isnan(found.cpu_s)


def test_a_sensor_that_ends_before_the_program_means_no_energy(tmp_path):
    meter = made_up_meter(tmp_path / "short.csv", seconds=0.05)
    program = "import time; time.sleep(0.3)"
    found = monitor(python(program), meters=[meter], period_s=PERIOD_S)
    assert found.energy is None
    assert math.isnan(found.mean_power_w)
    assert any("the recording is over" in note for note in found.notes)
    assert any("sim:package was known for" in note for note in found.notes)


def test_a_held_program_does_nothing_until_it_is_released(tmp_path):
    told = tmp_path / "told"
    program = HeldProgram(python(f"open({str(told)!r}, 'w')"))
    program.drop()
    assert not told.exists()
    with pytest.raises(ChildProcessError):
        os.waitpid(program.pid, os.WNOHANG)  # it is gone, and nothing is left of it


def test_a_program_is_told_of_a_broken_pipe(meter):
    """Python ignores SIGPIPE; what it starts must not."""
    program = "import signal; print(signal.getsignal(signal.SIGPIPE), flush=True)"
    shell = f"yes | head -1 >/dev/null; {sys.executable} -c '{program}' >/dev/null"
    found = monitor(["sh", "-c", shell], meters=[meter], period_s=PERIOD_S)
    assert found.exit_code == 0
    held = HeldProgram(["sh", "-c", "kill -PIPE $$; exit 3"])
    held.release()
    assert held.wait() == 128 + signal.SIGPIPE


# A test that runs in the background is started with Ctrl-C ignored.
MONITOR = """
import signal
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from irene.measure.windows.monitoring import monitor
found = monitor({command!r}, meters=[{meter!r}], period_s=0.02, path=Path({out!r}))
print("code", found.exit_code, found.energy is not None)
"""
TELLS = "print('up', flush=True); import time; time.sleep(60)"


def started(meter: str, out: Path, program: str) -> subprocess.Popen[str]:
    """A monitor in a session of its own, so without a terminal, whose program runs."""
    text = MONITOR.format(command=python(program), meter=meter, out=str(out))
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_the_report_still_comes(meter, tmp_path, number):
    with started(meter, tmp_path / "out.csv", TELLS) as process:
        os.kill(process.pid, number)
        out, _ = process.communicate(timeout=240)
    assert out.startswith(f"code {128 + number} True")


def test_ctrl_c_that_the_program_survives_does_not_end_the_monitor(meter, tmp_path):
    program = (
        "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(5));"
        "print('up', flush=True); time.sleep(60)"
    )
    with started(meter, tmp_path / "out.csv", program) as process:
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=240)
    assert out.startswith("code 5 True")


def test_samples_are_readable_after_kill_9(meter, tmp_path):
    out = tmp_path / "out.csv"
    program = "import os; print('up', flush=True); print(os.getppid(), flush=True)"
    program += "; import time; time.sleep(0.3)"
    with started(meter, out, program) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
    for _ in range(4800):  # the sampler notices that it is alone, and ends
        if out.read_text().rstrip().endswith("}"):
            break
        time.sleep(0.05)
    recording = read_recording(out)
    assert len(recording) >= 2
    assert np.isfinite(recording.values).all()
    assert any(event["event"] == "end" for event in recording.events)


# What is made of samples ---------------------------------------------------------


def recorded(watts: list[float], step_s: float = 0.1, **fields) -> Monitored:
    """A counter with the given power in each step."""
    channel = Channel("sim:package", "energy_j", "cpu-package", **fields)
    joules = np.concatenate(([0.0], np.cumsum(np.array(watts) * step_s)))
    times = np.arange(len(joules), dtype=np.int64) * round(step_s * 1e9)
    recording = Recording((channel,), times, joules[:, None], step_s)
    return Monitored(("prog",), 0, 0, int(times[-1]), 1.0, recording)


def test_the_peak_is_the_largest_step():
    found = recorded([10, 10, 90, 10])
    assert found.peak_power_w == pytest.approx(90)
    assert found.mean_power_w == pytest.approx(30)
    assert found.power_w["sim:package"] == pytest.approx([10, 10, 90, 10])


def test_no_step_is_shorter_than_the_sensor():
    found = recorded([0, 100, 0, 100, 0, 100], resolution_s=0.2)
    assert found.peak_power_w == pytest.approx(50)


@pytest.mark.parametrize("period_s", [0.004, 0.05, 0.1, 0.25])
@pytest.mark.parametrize("refresh_s", [0.001, 0.0199, 0.02, 0.0995, 0.1, 0.17, 1.0])
def test_a_steady_load_has_no_peak(refresh_s, period_s):
    found = counted_in_steps(lambda t: 300.0 * t, refresh_s, period_s)
    assert found.peak_power_w == pytest.approx(300.0, rel=0.01)
    assert np.nanmin(found.total_power_w) == pytest.approx(300.0, rel=0.01)


@pytest.mark.parametrize("refresh_s", [0.101, 0.17, 0.5])
def test_a_meter_slower_than_it_says_makes_no_peak(refresh_s):
    found = counted_in_steps(lambda t: 300.0 * t, refresh_s, 0.1, says_s=0.001)
    assert found.peak_power_w == pytest.approx(300.0, rel=0.01)


@pytest.mark.parametrize("refresh_s", [0.001, 0.0199, 0.0995, 0.17])
def test_a_real_peak_is_seen(refresh_s):
    def energy_j(t):  # 500 W for two seconds
        return 100.0 * t + 400.0 * np.clip(t - 8.0, 0.0, 2.0)

    found = counted_in_steps(energy_j, refresh_s, 0.1)
    assert found.peak_power_w == pytest.approx(500.0, rel=0.08)
    assert found.peak_power_w < 500.0 * 1.01


def counted_in_steps(
    energy_j, refresh_s: float, period_s: float, says_s: float | None = None
) -> Monitored:
    """20 s of a counter that has something new every so often."""
    times = np.arange(0, round(20.0 / period_s) + 1) * period_s + 0.0003
    joules = energy_j(np.floor(times / refresh_s) * refresh_s)
    channel = Channel(
        "wall:energy", "energy_j", "wall", resolution_s=says_s or refresh_s
    )
    time_ns = np.rint(times * 1e9).astype(np.int64)
    recording = Recording((channel,), time_ns, joules[:, None], period_s)
    ends = int(time_ns[0]), int(time_ns[-1])
    return Monitored(("prog",), 0, *ends, 1.0, recording)


def test_a_long_command_is_one_short_line():
    found = recorded([1, 2])
    long = Monitored(("sh", "-c", "a\nb" * 100), 0, 0, 1, 0.0, found.recording)
    assert "\n" not in long.title
    assert len(long.title) <= 100


def test_samples_that_were_missed_are_told():
    counts = {"samples": 40, "late": 3, "missed": 60}
    found = replace(recorded([10, 10]), counts=counts)
    assert any("60 of 100 samples were missed" in note for note in found.notes)
    assert not any("missed" in note for note in recorded([10, 10]).notes)
