"""Logs of programs that people have: faithful lines, known energies."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from irene.errors import FormatError, UsageError
from irene.meters.logs.log_lines import PowerLog
from irene.meters.logs.power_log import read_power_log, read_power_logs

S = 1_000_000_000
BEGIN_S = 1_706_709_901  # 2024-01-31 14:05:01 UTC
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str) -> Path:
        path = tmp_path / "power.log"
        path.write_text(text)
        return path

    return put


def by_device(logs: tuple[PowerLog, ...]) -> dict[str, list[float]]:
    return {log.device: log.power_w.tolist() for log in logs}


def energy_j(log: PowerLog) -> float:
    return float(log.energy_j[-1] - log.energy_j[0])


# nvidia-smi ---------------------------------------------------------------------


def test_gpus_of_nvidia_smi_are_devices_of_their_own(write: Write) -> None:
    rows = [
        f"2024/01/31 14:05:0{second}.250, {gpu}, {100 * (gpu + 1) + second}.50 W"
        for second in (1, 2, 3)
        for gpu in (0, 1)
    ]
    path = write("\n".join(["timestamp, index, power.draw [W]", *rows]))
    logs = read_power_logs(path)
    assert by_device(logs) == {
        "cuda:0": [101.5, 102.5, 103.5],
        "cuda:1": [201.5, 202.5, 203.5],
    }
    assert [log.name for log in logs] == ["power.log GPU 0", "power.log GPU 1"]
    assert {log.covers for log in logs} == {"gpu-board"}
    assert abs(int(logs[0].time_ns[0]) - BEGIN_S * S - S // 4) < 500
    with pytest.raises(UsageError, match="holds 2 series"):
        read_power_log(path)


def test_gpus_by_uuid_and_what_one_does_not_say(write: Write) -> None:
    text = """\
timestamp, uuid, power.draw.average [W], power.draw.instant [W]
2024/01/31 14:05:01.000, GPU-5a, 90.00 W, 100.00 W
2024/01/31 14:05:01.000, GPU-b7, 190.00 W, 200.00 W
2024/01/31 14:05:02.000, GPU-5a, 90.00 W, 110.00 W
2024/01/31 14:05:02.000, GPU-b7, [N/A], [N/A]
2024/01/31 14:05:03.000, GPU-5a, 90.00 W, 120.00 W
2024/01/31 14:05:03.000, GPU-b7, 190.00 W, 220.00 W
"""
    first, second = read_power_logs(write(text))
    assert first.name.endswith("GPU GPU-5a")
    assert first.power_w.tolist() == [100.0, 110.0, 120.0]
    assert second.power_w.tolist() == [200.0, 220.0]
    assert "1 lines dropped: 5" in second.notes


def test_a_gpu_that_says_nothing_is_left_out_and_named(write: Write) -> None:
    head = "timestamp, index, power.draw [W]"
    rows = [
        f"2024/01/31 14:05:0{second}, {gpu}, {'[Not Supported]' if gpu else '90 W'}"
        for second in (1, 2, 3)
        for gpu in (0, 1)
    ]
    # A logger that was started again writes its head again.
    (log,) = read_power_logs(write("\n".join([head, *rows[:4], head, *rows[4:]])))
    assert (log.device, log.power_w.tolist()) == ("cuda:0", [90.0] * 3)
    assert "warning: GPU 1: no power in the log, left out" in log.notes
    with pytest.raises(FormatError, match=r"power in it: '2024.*Not Supported.*number"):
        read_power_logs(write("\n".join([head, *rows[1::2]])))


def test_a_column_that_numbers_lines_is_no_device(write: Write) -> None:
    rows = [f"{n},{BEGIN_S + n},100" for n in range(200)]
    log = read_power_log(write("\n".join(["index,time,watts", *rows])))
    assert (len(log), log.device) == (200, "")


def test_a_column_for_each_gpu(write: Write) -> None:
    rows = [f"{BEGIN_S + n},{100 + n},{200 + n}" for n in range(3)]
    logs = read_power_logs(write("\n".join(["time,power0,power1", *rows])))
    assert by_device(logs) == {"cuda:0": [100, 101, 102], "cuda:1": [200, 201, 202]}


DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %
 20240131   14:05:01      0    250     56      -     98     45
 20240131   14:05:01      1      -     31      -      0      0
 20240131   14:05:02      0    260     56      -     98     45
 20240131   14:05:02      1     61     31      -      0      0
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem
 20240131   14:05:03      0    270     56      -     98     45
 20240131   14:05:03      1     62     31      -      0      0
"""


def test_dmon_with_its_dates(write: Write) -> None:
    logs = read_power_logs(write(DMON))
    assert by_device(logs) == {"cuda:0": [250, 260, 270], "cuda:1": [61, 62]}
    assert logs[0].time_ns[0] == BEGIN_S * S


def test_dmon_without_times_says_how_to_log_them(write: Write) -> None:
    text = "# gpu    pwr  gtemp\n# Idx      W      C\n    0    250     56\n"
    with pytest.raises(FormatError, match="-o DT"):
        read_power_logs(write(text))


# Zones --------------------------------------------------------------------------


def test_local_times_are_of_the_zone_that_is_given(write: Write) -> None:
    path = write(DMON.replace("14:05", "15:05"))
    for zone in ("Europe/Berlin", "+01:00"):
        (log, _) = read_power_logs(path, zone=zone)
        assert log.time_ns[0] == BEGIN_S * S
        assert f"taken as {zone}" in log.notes[0]


@pytest.mark.parametrize(
    ("day", "how"), [("2024/10/27", "shown twice"), ("2024/03/31", "left out")]
)
def test_an_hour_that_is_not_one_is_refused(write: Write, day: str, how: str) -> None:
    rows = [f"{day} 02:30:0{n}, 100 W" for n in range(3)]
    path = write("\n".join(["timestamp, power.draw [W]", *rows]))
    with pytest.raises(UsageError, match=how):
        read_power_log(path, zone="Europe/Berlin")
    log = read_power_log(path, zone="+01:00")
    assert len(log) == 3


@pytest.mark.parametrize(
    ("begin", "end"), [("00:50", "01:40"), ("00:10", "01:30"), ("23:50", "00:40")]
)
def test_a_log_goes_on_while_clocks_are_set_back(
    write: Write, begin: str, end: str
) -> None:
    """From 00:00 to 02:00 UTC, clocks in Berlin show 02:00 to 03:00 twice."""
    day = datetime(2024, 10, 27 - (begin > end), tzinfo=UTC)
    hours = [timedelta(hours=int(t[:2]), minutes=int(t[3:])) for t in (begin, end)]
    start, stop = day + hours[0], day + timedelta(days=begin > end) + hours[1]
    truth = [start + timedelta(minutes=n) for n in range((stop - start).seconds // 60)]
    berlin = ZoneInfo("Europe/Berlin")
    rows = [f"{t.astimezone(berlin):%Y/%m/%d %H:%M:%S}, 100 W" for t in truth]
    path = write("\n".join(["timestamp, power.draw [W]", *rows]))
    log = read_power_log(path, zone="Europe/Berlin")
    assert log.time_ns.tolist() == [int(t.timestamp()) * S for t in truth]


def test_a_zone_that_there_is_not(write: Write) -> None:
    with pytest.raises(UsageError, match="no time zone 'Mars/Olympus'"):
        read_power_logs(write(DMON), zone="Mars/Olympus")


def test_times_with_a_zone_are_not_moved(write: Write) -> None:
    rows = [f"2024-01-31T14:05:0{n}Z,100" for n in (1, 2, 3)]
    log = read_power_log(write("\n".join(["t,w", *rows])), zone="Europe/Berlin")
    assert log.time_ns[0] == BEGIN_S * S


# Counters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "unit_j"),
    [("time,joules", 1.0), ("time,energy_mJ", 1e-3), ("time,energy (kWh)", 3.6e6)],
)
def test_counted_energy(write: Write, head: str, unit_j: float) -> None:
    counts = [5.0, 6.0, 8.0, 11.0]
    rows = [f"{BEGIN_S + 2 * n},{count}" for n, count in enumerate(counts)]
    log = read_power_log(write("\n".join([head, *rows])))
    assert energy_j(log) == pytest.approx(6.0 * unit_j)
    assert log.power_w == pytest.approx(np.array([0.5, 0.5, 1.0, 1.5]) * unit_j)


def test_a_counter_that_goes_back_is_not_known_there(write: Write) -> None:
    rows = [f"{BEGIN_S + n},{count}" for n, count in enumerate([5, 6, 1, 2])]
    log = read_power_log(write("\n".join(["time,joules", *rows])))
    assert np.isnan(log.power_w[2])
    assert "went back 1 times" in " ".join(log.notes)


def test_milliwatts_without_their_name_are_asked_about(write: Write) -> None:
    rows = [f"{BEGIN_S + n},250000" for n in range(3)]
    log = read_power_log(write("\n".join(["time,power", *rows])))
    assert "milliwatts?" in log.notes[-1]


PERF_TEXT = """\
# started on Wed Jan 31 14:05:01 2024

#           time             counts   unit events
     1.000105419              52.31 Joules power/energy-pkg/
     1.000105419               8.25 Joules power/energy-ram/
     1.000105419              21.00 Joules power/energy-cores/
     2.000301225           1,047.69 Joules power/energy-pkg/
     2.000301225               8.75 Joules power/energy-ram/
"""
PERF_CSV = """\
# started on Wed Jan 31 14:05:01 2024

1.000105419,52.31,Joules,power/energy-pkg/,1000104000,100.00,,
1.000105419,8.25,Joules,power/energy-ram/,1000104000,100.00,,
2.000301225,1047.69,Joules,power/energy-pkg/,1000104000,100.00,,
2.000301225,8.75,Joules,power/energy-ram/,1000104000,100.00,,
"""


@pytest.mark.parametrize("text", [PERF_TEXT, PERF_CSV])
def test_perf_counts_of_every_interval_add_up(write: Write, text: str) -> None:
    package, memory = read_power_logs(write(text))
    assert energy_j(package) == pytest.approx(1100.0)
    assert energy_j(memory) == pytest.approx(17.0)
    assert (package.device, package.covers) == ("cpu", "cpu-package")
    assert memory.covers == "dram"
    assert package.time_ns[0] == BEGIN_S * S


def test_perf_of_two_sockets(write: Write) -> None:
    text = "".join(
        f"{second}.0,S{socket},1,{10 * (socket + 1)}.5,Joules,power/energy-pkg/,1,100\n"
        for second in (1, 2)
        for socket in (0, 1)
    )
    logs = read_power_logs(write(text), offset_s=BEGIN_S)
    assert [energy_j(log) for log in logs] == pytest.approx([21.0, 41.0])
    assert logs[0].time_ns[0] == BEGIN_S * S


def test_codecarbon_from_the_start_of_its_run(write: Write) -> None:
    text = (
        "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,"
        "gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed\n"
        "2024-01-31T14:05:11,x,r1,10.0,0.1,0.01,42.5,200,20,0.0001,0.0005,0.00005,1\n"
        "2024-01-31T14:05:21,x,r1,20.0,0.1,0.01,42.5,200,20,0.0002,0.0010,0.00010,2\n"
    )
    logs = read_power_logs(write(text))
    assert [log.covers for log in logs] == ["cpu-package", "gpu-board", "dram"]
    assert [energy_j(log) for log in logs] == pytest.approx([720.0, 3600.0, 360.0])
    assert logs[0].time_ns[0] == BEGIN_S * S
    assert "estimated" in logs[0].notes[0]
    short = text.replace("emissions_rate,", "").replace(",0.01,", ",")
    assert energy_j(read_power_logs(write(short))[1]) == pytest.approx(3600.0)
    with pytest.raises(FormatError, match="2 runs"):
        read_power_logs(write(text.replace("r1,20.0", "r2,20.0")))


def test_energy_without_a_unit_that_nobody_knows_is_refused(write: Write) -> None:
    with pytest.raises(FormatError, match="no column of power"):
        read_power_logs(write("timestamp,energy_consumed\n1,0.1\n2,0.2\n"))


# Prometheus, Grafana, Scaphandre ------------------------------------------------


def answer(*series: tuple[dict[str, str], list[float]]) -> str:
    result = [
        {
            "metric": metric,
            "values": [[BEGIN_S + 15 * n, str(v)] for n, v in enumerate(values)],
        }
        for metric, values in series
    ]
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data})


def test_dcgm_by_prometheus(write: Write) -> None:
    power = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "device": "nvidia0"}
    energy = {"__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpu": "1"}
    text = answer(
        ({**power, "gpu": "0"}, [250.0, 260.0]),
        ({**power, "gpu": "1"}, [61.0, 62.0]),
        (energy, [1e6, 1.93e6]),
        ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0"}, [56.0, 57.0]),
    )
    logs = {log.device: log for log in read_power_logs(write(text))}
    assert set(logs) == {"cuda:0", "cuda:1"}
    assert logs["cuda:0"].power_w.tolist() == [250.0, 260.0]
    assert energy_j(logs["cuda:1"]) == pytest.approx(930.0)  # the counter, not both
    assert logs["cuda:0"].time_ns[1] == (BEGIN_S + 15) * S


def test_kepler_by_prometheus_counts_no_joule_twice(write: Write) -> None:
    name = {"__name__": "kepler_node_cpu_joules_total"}
    pod = {"__name__": "kepler_pod_cpu_joules_total", "zone": "package"}
    text = answer(
        ({**name, "zone": "package"}, [10.0, 1510.0]),
        ({**name, "zone": "dram"}, [10.0, 160.0]),
        ({**name, "zone": "core"}, [10.0, 1010.0]),
        (pod, [1.0, 800.0]),
    )
    logs = read_power_logs(write(text))
    assert {log.covers: energy_j(log) for log in logs} == {
        "cpu-package": 1500.0,
        "dram": 150.0,
    }


def test_kepler_before_0_10_counts_no_joule_twice(write: Write) -> None:
    """Its zones are in the names, idle and dynamic energy are series of their own."""
    text = answer(
        *(
            ({"__name__": f"kepler_node_{zone}_joules_total", "mode": mode}, [0.0, j])
            for zone, joules in (
                ("package", (900.0, 600.0)),
                ("dram", (100.0, 50.0)),
                ("core", (700.0, 300.0)),
                ("other", (10.0, 10.0)),
            )
            for mode, j in zip(("dynamic", "idle"), joules, strict=True)
        ),
        ({"__name__": "kepler_container_package_joules_total"}, [0.0, 800.0]),
    )
    logs = read_power_logs(write(text))
    assert sum(map(energy_j, logs)) == 1650.0
    assert {log.covers for log in logs} == {"cpu-package", "dram"}


DCGMI = """\
{t0}#Entity   POWER   TOTEC      SMCLK
{t0}ID        W       mJ         MHz
{t0}GPU 0     68.551  1000000    1410
{t0}GPU 1     70.000  N/A        1410
{t1}#Entity   POWER   TOTEC      SMCLK
{t1}ID        W       mJ         MHz
{t1}GPU 0     300.2   1150000    1410
{t1}GPU 1     310.0   N/A        1410
"""


@pytest.mark.parametrize("unix", [True, False])
def test_dcgmi_dmon_behind_ts(write: Write, unix: bool) -> None:
    begin = datetime.fromtimestamp(BEGIN_S, UTC)
    clock = [
        f"{BEGIN_S + n}.250000 " if unix else f"{begin + timedelta(seconds=n):%FT%T} "
        for n in (0, 1)
    ]
    text = DCGMI.format(t0=clock[0], t1=clock[1])
    logs = {log.device: log for log in read_power_logs(write(text))}
    assert energy_j(logs["cuda:0"]) == pytest.approx(150.0)  # the counter
    assert logs["cuda:1"].power_w.tolist() == [70.0, 310.0]
    assert logs["cuda:1"].time_ns[1] - logs["cuda:1"].time_ns[0] == S
    assert any("zone" in note for note in logs["cuda:1"].notes) is not unix


def test_dcgmi_dmon_without_times_says_how_to_log_them(write: Write) -> None:
    with pytest.raises(FormatError, match=r"ts '%\.s'"):
        read_power_logs(write(DCGMI.format(t0="", t1="")))


def test_windows_of_zeus(write: Write) -> None:
    head = "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n"
    rows = [(0.0, 2.0, 600.0, 100.0), (2.0, 1.0, 60.0, 50.0), (5.0, 1.0, 90.0, 70.0)]
    text = head + "".join(
        f"{BEGIN_S + t},step {n},{length},{a},{b}\n"
        for n, (t, length, a, b) in enumerate(rows)
    )
    first, second = read_power_logs(write(text))
    assert (first.device, second.device) == ("cuda:0", "cuda:1")
    at = (np.array([0.5, 1.5, 2.5, 5.5]) + BEGIN_S) * S
    assert np.interp(at, first.time_ns, first.power_w) == pytest.approx(
        [300.0, 300.0, 60.0, 90.0]
    )
    assert np.isnan(np.interp((BEGIN_S + 4.0) * S, first.time_ns, first.power_w))
    both = text + f"{BEGIN_S + 0.5},whole,5.0,750,220\n"
    with pytest.raises(FormatError, match="overlap"):
        read_power_logs(write(both))


def test_columns_that_are_numbers_are_gpus(write: Write) -> None:
    rows = "".join(f"{BEGIN_S + n},{60.0 + n},{70.0 + n}\n" for n in range(3))
    logs = read_power_logs(write("time,0,1\n" + rows))
    assert [log.device for log in logs] == ["cuda:0", "cuda:1"]
    assert logs[1].power_w.tolist() == [70.0, 71.0, 72.0]
    one = "".join(f"{BEGIN_S + n},{60.0 + n}\n" for n in range(3))
    assert read_power_log(write("time,0\n" + one)).device == "cuda:0"


def test_scaphandre_by_prometheus_is_its_host(write: Write) -> None:
    text = answer(
        ({"__name__": "scaph_host_power_microwatts"}, [42e6, 43e6]),
        ({"__name__": "scaph_socket_power_microwatts", "socket_id": "0"}, [30e6, 31e6]),
    )
    log = read_power_log(write(text))
    assert log.power_w == pytest.approx([42.0, 43.0])


@pytest.mark.parametrize("joint", ["\n", ",\n", ""])
@pytest.mark.parametrize("is_list", [True, False])
def test_scaphandre_by_itself(write: Write, joint: str, is_list: bool) -> None:
    documents = [
        {
            "host": {"consumption": 11e6 + n, "timestamp": BEGIN_S + 2.5 * n},
            "consumers": [{"exe": "python", "pid": 7, "consumption": 5e6}],
            "sockets": [{"id": 0, "consumption": 1e7, "domains": []}],
        }
        for n in range(3)
    ]
    text = joint.join(map(json.dumps, documents))
    log = read_power_log(write(f"[{text}]" if is_list else text))
    assert log.power_w == pytest.approx([11.0, 11.000001, 11.000002])
    assert log.time_ns[1] == BEGIN_S * S + 5 * S // 2


def test_frames_of_grafana(write: Write) -> None:
    fields = [
        {"name": "Time", "type": "time"},
        {"name": "DCGM_FI_DEV_POWER_USAGE", "type": "number", "labels": {"gpu": "3"}},
    ]
    data = {"values": [[BEGIN_S * 1000, BEGIN_S * 1000 + 500], [250, None]]}
    frame = {"schema": {"fields": fields}, "data": data}
    text = json.dumps({"results": {"A": {"frames": [frame]}}})
    log = read_power_log(write(text))
    assert (log.device, log.power_w.tolist()) == ("cuda:3", [250.0])
    assert log.time_ns[0] == BEGIN_S * S


def test_a_table_of_grafana(write: Write) -> None:
    text = (
        '"Time","DCGM_FI_DEV_POWER_USAGE{gpu=""0"", instance=""a:9400""}",'
        '"DCGM_FI_DEV_POWER_USAGE{gpu=""1"", instance=""a:9400""}"\n'
        "2024-01-31 15:05:01,250 W,61\n2024-01-31 15:05:16,260 W,\n"
    )
    logs = read_power_logs(write(text), zone="Europe/Berlin")
    assert by_device(logs) == {"cuda:0": [250.0, 260.0], "cuda:1": [61.0]}
    assert logs[0].time_ns[0] == BEGIN_S * S


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"status": "success", "data": {"result": []}}', "no power or energy"),
        ('{"data": {"result": [{"metric": {}, "values": [["x"]]}]}}', "x|damaged"),
        ('{"hello": 1}', "no power or energy"),
        ('{"data": ', "Expecting|damaged"),
    ],
)
def test_documents_that_hold_nothing_are_refused(
    write: Write, text: str, problem: str
) -> None:
    with pytest.raises(FormatError, match=problem):
        read_power_logs(write(text))


def test_the_history_of_home_assistant(tmp_path):
    rows = [
        "entity_id,state,last_changed",
        "sensor.plug_power,50.0,2026-11-01T10:00:00.000Z",
        "sensor.plug_energy,3.1,2026-11-01T10:00:05.000Z",
        "sensor.plug_power,unavailable,2026-11-01T10:00:10.000Z",
        "sensor.plug_power,60.0,2026-11-01T10:00:20.000Z",
    ]
    path = tmp_path / "history.csv"
    path.write_text("\n".join(rows))
    log = read_power_log(path)
    assert log.power_w.tolist() == [50.0, 60.0]
    assert any("taken as W" in note for note in log.notes)
