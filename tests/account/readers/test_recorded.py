from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from irene.account.readers.recorded import power_of_recording, read_power, read_trace
from irene.errors import FormatError, UsageError
from irene.meters.channel import Channel
from irene.meters.sampling.recording import Recording
from irene.meters.sampling.sample_file import SampleFile

S = 1_000_000_000
EPOCH = 1_700_000_000 * S


def recording(**changed: object) -> Recording:
    channels = (
        Channel("rapl:package-0", "energy_j", "cpu-package", device="cpu",
                resolution_s=0.001, relative_error=0.1),
        Channel("rapl:core", "energy_j", "cpu-core", device="cpu", counted=False),
        Channel("nvml:0:power", "power_w", "gpu-board", device="cuda:0"),
        Channel("proc:cpu", "percent"),
        Channel("proc:process_cpu", "percent"),
    )  # fmt: skip
    time_ns = np.arange(11, dtype=np.int64) * S // 10
    values = np.column_stack(
        (
            np.arange(11) * 5.0,
            np.arange(11) * 4.0,
            np.linspace(100, 200, 11),
            np.full(11, 50.0),  # half of 8 CPUs
            np.full(11, 100.0),  # one of them
        )
    )
    fields = {
        "channels": channels, "time_ns": time_ns, "values": values, "period_s": 0.1,
        "clock": ((0, EPOCH),),
    }  # fmt: skip
    return Recording(**{**fields, **changed})  # type: ignore[arg-type]


def test_channels_that_count_become_series_on_the_clock_of_the_world() -> None:
    package, board = power_of_recording(recording())
    assert package.name == "rapl:package-0"
    assert package.span_ns == (EPOCH, EPOCH + S)
    assert package.window_j(EPOCH, EPOCH + S) == pytest.approx(50.0)
    assert (package.resolution_s, package.relative_error) == (0.001, 0.1)
    assert board.device == "cuda:0"
    assert board.window_j(EPOCH, EPOCH + S // 2) == pytest.approx(62.5)


def test_the_share_of_a_process_from_recorded_loads() -> None:
    package, board = power_of_recording(recording(), cpus=8)
    assert package.share is not None
    assert package.share.tolist() == pytest.approx([0.25] * 10)
    assert board.share is None
    few = recording(channels=recording().channels[:3], values=recording().values[:, :3])
    with pytest.raises(UsageError, match="proc:process_cpu"):
        power_of_recording(few, cpus=8)


def test_a_clock_that_was_set_back_is_refused_with_the_number() -> None:
    pairs = ((0, EPOCH), (S // 2, EPOCH + S // 2 - 3 * S))
    with pytest.raises(FormatError, match=r"set back by 2\.900000 s after sample 4"):
        power_of_recording(recording(clock=pairs))


def test_an_idle_power_needs_one_channel() -> None:
    with pytest.raises(UsageError, match="rapl:package-0, nvml:0:power"):
        power_of_recording(recording(), 30.0)


def test_a_recording_without_energy_or_samples_is_refused() -> None:
    loads = recording(channels=recording().channels[3:], values=np.zeros((11, 2)))
    with pytest.raises(UsageError, match="no channel of the recording gives energy"):
        power_of_recording(loads)
    with pytest.raises(UsageError, match="1 samples"):
        power_of_recording(
            recording(time_ns=np.zeros(1, np.int64), values=np.zeros((1, 5)))
        )


def write_recording(path: Path) -> Path:
    one = recording()
    header = {
        "schema": "irene.samples/1", "period_s": 0.1,
        "clock": {"time_ns": 0, "epoch_ns": EPOCH},
        "channels": [{"name": "nvml:0:power", "quantity": "power_w",
                      "covers": "gpu-board", "device": "cuda:0"}],
    }  # fmt: skip
    rows = zip(one.time_ns.tolist(), one.values[:, 2].tolist(), strict=True)
    lines = [f"#{json.dumps(header)}", "time_ns,nvml:0:power"]
    lines += [f"{time},{watts}" for time, watts in rows]
    path.write_text("\n".join([*lines, '#{"event": "end"}']) + "\n")
    return path


def test_a_file_of_samples_is_known_by_its_content(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "samples.txt")
    power = read_power(path, offset_s=2.0, idle_w=40.0)
    (series,) = power.series
    assert series.span_ns == (EPOCH + 2 * S, EPOCH + 3 * S)
    assert series.idle_w == 40.0
    with pytest.raises(UsageError, match="--device"):
        read_power(path, device="cuda:0")


def test_a_table_of_watts_is_a_log_of_the_whole_machine_unless_said(
    tmp_path: Path,
) -> None:
    path = tmp_path / "power.csv"
    path.write_text("time_s,power_w\n1700000000,10\n1700000001,30\n1700000002,30\n")
    (series,) = read_power(path).series
    assert (series.device, series.covers) == ("", "wall")
    assert series.window_j(EPOCH, EPOCH + 2 * S) == pytest.approx(50.0)
    (series,) = read_power(path, device="cuda:1").series
    assert (series.device, series.covers) == ("cuda:1", "cuda:1")
    with pytest.raises(UsageError, match="--cpus"):
        read_power(path, cpus=8)


def test_a_log_of_two_gpus_and_a_counter(tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    rows = [
        f"2023/11/14 23:13:2{second}.000, {gpu}, {100 * (gpu + 1)}.00 W"
        for second in (0, 1, 2)
        for gpu in (0, 1)
    ]
    path.write_text("\n".join(["timestamp, index, power.draw [W]", *rows]))
    power = read_power(path, zone="Europe/Berlin")
    used_j = {one.device: one.window_j(EPOCH, EPOCH + 2 * S) for one in power.series}
    assert used_j == pytest.approx({"cuda:0": 200.0, "cuda:1": 400.0})
    with pytest.raises(UsageError, match="--device is for a log of one series"):
        read_power(path, device="cuda:0")
    path.write_text("time,joules\n1700000000,5\n1700000001,25\n1700000002,65\n")
    (series,) = read_power(path).series
    assert series.window_j(EPOCH, EPOCH + 2 * S) == pytest.approx(60.0)


def test_a_long_log_without_a_zone_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    rows = [f"2023-11-14 {n // 6:02}:{n % 6}0:00,60" for n in range(6 * 17, 6 * 24)]
    path.write_text("\n".join(["time,watts", *rows]))
    window_ns = (EPOCH, EPOCH + S)  # 22:13 UTC
    with pytest.raises(UsageError, match=r"7 of them, UTC-5 to UTC\+1: say which"):
        read_power(path).check_zone(window_ns)
    read_power(path, zone="UTC").check_zone(window_ns)
    read_power(path, -3600.0).check_zone(window_ns)
    path.write_text("\n".join(["time,watts", *rows[-12:]]))
    with pytest.raises(UsageError, match="2 of them"):
        read_power(path).check_zone(window_ns)
    path.write_text("\n".join(["time,watts", *rows[-12:-8]]))
    read_power(path).check_zone(window_ns)


def test_a_recording_says_what_is_missing_in_it(tmp_path: Path) -> None:
    facts = {"counted": False, "missing": "Permission denied"}
    channels = [
        Channel("rapl:package-0", "energy_j", "cpu-package"),
        Channel("rapl:package-1", "energy_j", "cpu-package", **facts),
    ]
    file = SampleFile(tmp_path / "samples.csv", channels, 1.0)
    for second in range(3):
        file.add(second * S, [90.0 * second, float("nan")])
    file.close()
    power = read_power(file.path)
    assert [one.name for one in power.series] == ["rapl:package-0"]
    assert power.series[0].without == ("rapl:package-1",)
    assert any("rapl:package-1 is missing in the total" in n for n in power.notes)


def test_samples_out_of_order_or_doubled_are_told(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text(
        "time_s,power_w\n1700000001,10\n1700000000,10\n1700000002,10\n1700000002,30\n"
    )
    power = read_power(path)
    assert any("earlier than the one before" in note for note in power.notes)
    assert any("given twice" in note for note in power.notes)
    assert power.series[0].window_j(EPOCH, EPOCH + 2 * S) == pytest.approx(25.0)


@pytest.mark.parametrize("content", [b"", b"\x00\x01binary", b"hello"])
def test_a_trace_of_no_known_format_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"trace\.bin"):
        read_trace(path)


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path / "no.json")
    with pytest.raises(UsageError, match="cannot read"):
        read_power(tmp_path / "no.csv")


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("keras_fit.xplane.pb.gz", "layer_0"),
        ("timeline-1.json.gz", "encoder"),
        ("jax_step.xplane.pb.gz", "layer"),
    ],
)
def test_traces_of_other_frameworks_are_known_by_their_content(
    name: str, scope: str
) -> None:
    trace = read_trace(Path(__file__).parent / "recorded" / name)
    assert trace.has_clock
    assert any(scope in path for path in trace.events.scope.names)


def test_hlo_is_for_jax_alone(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    with pytest.raises(UsageError, match="JAX"):
        read_trace(trace, [tmp_path / "step.txt"])


def test_the_error_of_a_log_s_meter_is_stated_or_said_to_be_unknown(
    tmp_path: Path,
) -> None:
    log = tmp_path / "power.csv"
    log.write_text("timestamp,watts\n1700000000,100\n1700000001,100\n")
    assert any("how exact" in note for note in read_power(log).notes)
    stated = read_power(log, error_percent=3.0)
    assert stated.series[0].relative_error == pytest.approx(0.03)
    assert not any("how exact" in note for note in stated.notes)
    with pytest.raises(UsageError, match="0 to 100"):
        read_power(log, error_percent=300.0)


def test_the_share_is_smoothed_to_what_ticks_of_the_kernel_resolve() -> None:
    """A steady share of 30 %, as loads of 50 ms in steps of a fifth show it."""
    rng = np.random.default_rng(3)
    samples = 2000
    times = np.arange(samples, dtype=np.int64) * 50_000_000
    process = 20.0 * rng.binomial(5, 0.3, samples)
    machine = np.full(samples, 100.0)
    energy = np.arange(samples) * 5.0
    channels = (
        Channel("rapl:package-0", "energy_j", covers="cpu-package", device="cpu"),
        Channel("proc:process_cpu", "percent"),
        Channel("proc:cpu", "percent"),
    )
    values = np.stack([energy, process, machine], axis=1)
    recording = Recording(channels, times, values, 0.05, ((0, 10**18),))
    (package,) = power_of_recording(recording, cpus=1)
    assert package.share is not None
    assert package.share.mean() == pytest.approx(0.3, abs=0.01)
    assert package.share.std() < 0.08  # of 0.2 before


def test_a_trace_of_jax_in_json_says_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "host.trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "pid": 1, "ts": 1, "dur": 2}]}')
    with pytest.raises(FormatError, match=r"xplane\.pb"):
        read_trace(path)
