"""Meters over the network and by commands: real HTTP servers, real Prometheus text."""

import json
import math
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from irene.errors import MeterError, UsageError
from irene.meters.channel import PolledMeter
from irene.meters.cpu.kernel_files import Roots
from irene.meters.finding import METERS, names_in, open_meters
from irene.meters.wall.http_json import HttpSource, open_http
from irene.meters.wall.prometheus import open_prometheus

SHELLY_2 = {"id": 0, "output": True, "apower": 61.4, "aenergy": {"total": 2.5}}
SHELLY_1 = {"relays": [{}], "meters": [{"power": 61.4, "total": 1234}]}
TASMOTA = {"StatusSNS": {"Time": "2026-01-01T00:00:00", "ENERGY": {"Power": 61.4}}}
HOME = {
    "entity_id": "sensor.plug",
    "state": "0.0614",
    "attributes": {"unit_of_measurement": "kW"},
}
REDFISH = {"PowerControl": [{"Name": "Server", "PowerConsumedWatts": 61.4}]}
ENVIRONMENT = {"PowerWatts": {"Reading": 61.4}}

KEPLER = """\
# HELP kepler_node_cpu_joules_total Energy
# TYPE kepler_node_cpu_joules_total counter
kepler_node_cpu_joules_total{zone="package",path="/sys/a"} 100.0
kepler_node_cpu_joules_total{zone="core",path="/sys/b"} 60.0
kepler_node_cpu_joules_total{zone="dram",path="/sys/c"} 20.0
# TYPE kepler_container_cpu_joules_total counter
kepler_container_cpu_joules_total{container_name="a",zone="package"} 70.0
"""
DCGM = """\
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",Hostname="n"} 300.5
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",Hostname="n"} 60.5
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",Hostname="n"} 4000
"""
SCAPHANDRE = """\
# TYPE scaph_host_power_microwatts gauge
scaph_host_power_microwatts 42500000
# TYPE scaph_process_power_consumption_microwatts gauge
scaph_process_power_consumption_microwatts{pid="1"} 1000000
"""


@contextmanager
def answering(body):
    """A server that answers `body()`, or refuses where that is a number."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self)
            answer = body() if callable(body) else body
            if isinstance(answer, int):
                self.send_error(answer)
                return
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    server.asked = asked
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "document", [SHELLY_1, SHELLY_2, TASMOTA, HOME, REDFISH, ENVIRONMENT]
)
def test_known_devices_need_no_path(document):
    with answering(document) as (url, _):
        (meter,) = open_meters([f"{url}/status"])
        try:
            assert list(meter.read()) == [pytest.approx(61.4)]
            assert meter.channels[0].quantity == "power_w"
            assert meter.channels[0].covers == "wall"
        finally:
            meter.close()


def test_a_counter_of_energy_is_told_by_its_unit():
    with answering(SHELLY_2) as (url, _):
        meter = open_http(f"{url}#path=aenergy.total&unit=Wh&error_percent=1")
        assert list(meter.read()) == [pytest.approx(9000.0)]
        assert meter.channels[0].quantity == "energy_j"
        assert meter.channels[0].relative_error == 0.01
        meter.close()


def test_passwords_are_sent_and_never_shown(monkeypatch):
    with answering(REDFISH) as (url, server):
        meter = open_http(url.replace("//", "//admin:geheim@"))
        assert server.asked[0].headers["Authorization"].startswith("Basic ")
        assert "geheim" not in repr(meter.channels)
        meter.close()
        monkeypatch.setenv("IRENE_METER_TOKEN", "abc")
        open_http(url).close()
        assert server.asked[-1].headers["Authorization"] == "Bearer abc"


def test_where_an_address_sends_us_on_to_no_password_is_told(monkeypatch):
    monkeypatch.setenv("IRENE_METER_TOKEN", "a-secret")
    with answering(SHELLY_2) as (there, other), answering(SHELLY_2) as (url, server):

        def send_on(handler):
            server.asked.append(handler)
            handler.send_response(302)
            handler.send_header("Location", there)
            handler.end_headers()

        server.RequestHandlerClass.do_GET = send_on
        for address in (url, url.replace("//", "//user:word@")):
            open_http(address).close()
            assert server.asked[-1].headers["Authorization"]
            assert not any(each.headers["Authorization"] for each in other.asked)


@pytest.mark.parametrize(
    ("body", "fragment", "says"),
    [
        ({"on": True}, "", "no known place of power"),
        (SHELLY_2, "#output.watts", "no number at"),
        ("<html>", "", "does not answer in JSON"),
        (401, "", "answers 401"),
        ({**HOME, "attributes": {"unit_of_measurement": "°C"}}, "", "no unit of power"),
    ],
)
def test_what_is_no_meter_is_said(body, fragment, says):
    with answering(body) as (url, _), pytest.raises(MeterError, match=says):
        open_http(url + fragment)


@pytest.mark.parametrize(
    "url", ["http://[", "http://h:99999", "http://h:x", "http://", "http://a b", "nope"]
)
def test_an_address_that_is_none_is_said(url):
    for ask in (open_http, open_prometheus):
        with pytest.raises(UsageError, match="is no address: write http"):
            ask(url)


def test_a_server_that_is_not_there_is_said():
    with answering({}) as (url, _):
        pass
    with pytest.raises(MeterError, match="nothing answers at"):
        open_http(url)


@pytest.mark.parametrize("text", ["http://", "http://h#unit=miles", "http://h#every=3"])
def test_bad_addresses_are_refused(text):
    with pytest.raises(UsageError):
        HttpSource.parse(text)


def test_addresses_may_stand_in_a_list():
    text = "rapl,http://plug/a?b=c#path=x,prometheus:http://h:1/metrics"
    assert names_in(text) == [
        "rapl", "http://plug/a?b=c#path=x", "prometheus:http://h:1/metrics",
    ]  # fmt: skip


def counted(meter):
    pairs = zip(meter.channels, meter.read(), strict=True)
    return {(c.covers, c.device): value for c, value in pairs if c.in_total}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KEPLER, {("cpu-package", "cpu"): 100.0, ("dram", "cpu"): 20.0}),
        (DCGM, {("gpu-board", "cuda:0"): 4.0, ("gpu-board", "cuda:1"): 60.5}),
        (SCAPHANDRE, {("wall", ""): 42.5}),
    ],
)
def test_exporters_count_each_joule_once(text, expected):
    with answering(text) as (url, _):
        meter = open_prometheus(f"prometheus:{url}/metrics")
        assert counted(meter) == expected
        meter.close()


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "often"])
def test_an_exporter_is_asked_every_so_many_seconds(every):
    with pytest.raises(UsageError, match="every_s must be"):
        open_prometheus(f"prometheus:http://127.0.0.1:9/metrics#every_s={every}")


def test_an_exporter_without_watts_is_refused():
    with (
        answering("# TYPE up gauge\nup 1\n") as (url, _),
        pytest.raises(MeterError, match="no metric of power"),
    ):
        open_prometheus(f"prometheus:{url}/metrics")


def test_silence_has_no_value(monkeypatch):
    monkeypatch.setattr("irene.meters.channel.SHORTEST_SILENCE_NS", 0)
    answers = iter([[5.0]])
    meter = PolledMeter("made-up", (), lambda: next(answers), 1e-4)
    while not meter.problem:
        pass
    meter.channels = ("one",)
    while not math.isnan(meter.read()[0]):
        pass
    meter.close()


def test_a_chassis_is_asked_by_ipmitool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert METERS["ipmi"].find("ipmi", Roots()).remedy == "sudo apt install ipmitool"
    tool = tmp_path / "ipmitool"
    tool.write_text(
        "#!/bin/sh\necho '    Instantaneous power reading:     220 Watts'\n"
    )
    tool.chmod(0o755)
    assert METERS["ipmi"].find("ipmi", Roots()).detail == "220 W"
    tool.write_text("#!/bin/sh\necho 'DCMI request failed' >&2; exit 1\n")
    assert "DCMI request failed" in METERS["ipmi"].find("ipmi", Roots()).detail
