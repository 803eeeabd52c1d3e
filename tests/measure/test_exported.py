"""What is counted, as Prometheus and OpenTelemetry see it."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.request import urlopen

import pytest

from irene.errors import UsageError
from irene.measure.windows.exported import Exported, to_otlp, to_prometheus
from irene.meters.channel import Channel
from irene.meters.sampling.totals import RunningTotals

CPU = Channel("rapl:package-0", "energy_j", covers="cpu-package", device="cpu")
CORE = Channel("rapl:core", "energy_j", covers="cpu-core", counted=False)
GPU = Channel("nvml:0:power", "power_w", covers="gpu-board", device="cuda:0")
LOAD = Channel("proc:cpu", "percent")


class Simulated:
    """A sampler with a clock of its own: a second for each question."""

    channels = (CPU, CORE, GPU, LOAD)

    def __init__(self) -> None:
        self._totals = RunningTotals(self.channels, 1.0)
        self._second = 0

    def sample_now(self):
        second, self._second = self._second, self._second + 1
        self._totals.add(second * 10**9, [second * 30.0, second * 20.0, 250.0, 50.0])
        return self._totals.snapshot()

    def between(self, begin, end):
        return self._totals.between(begin, end)


def test_prometheus_sees_every_channel_and_their_sum():
    from prometheus_client.parser import text_string_to_metric_families as parsed

    with to_prometheus(Exported(Simulated()), 0) as port:
        address = f"http://127.0.0.1:{port}/metrics"
        urlopen(address).close()
        text = urlopen(address).read().decode()
        with pytest.raises(UsageError, match="cannot answer on port"):
            to_prometheus(Exported(Simulated()), port).__enter__()
    samples = [sample for family in parsed(text) for sample in family.samples]
    found = {(s.name, s.labels.get("hw_id", "")): s.value for s in samples}
    assert found == {
        ("hw_energy_joules_total", "rapl:package-0"): 60.0,
        ("hw_energy_joules_total", "rapl:core"): 40.0,
        ("hw_energy_joules_total", "nvml:0:power"): 500.0,
        ("hw_power_watts", "rapl:package-0"): 30.0,
        ("hw_power_watts", "rapl:core"): 20.0,
        ("hw_power_watts", "nvml:0:power"): 250.0,
        ("hw_host_energy_joules_total", ""): 560.0,
        ("hw_host_power_watts", ""): 280.0,
    }


def test_a_collector_of_opentelemetry_gets_the_conventional_names():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            import gzip

            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            bodies.append(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/v1/metrics"
    with to_otlp(Exported(Simulated()), address, every_s=3600):
        pass  # what is left is sent at the end
    server.shutdown()
    server.server_close()
    request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(bodies[-1])
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    names = {(metric.name, metric.unit) for metric in metrics}
    assert names == {
        ("hw.energy", "J"), ("hw.power", "W"),
        ("hw.host.energy", "J"), ("hw.host.power", "W"),
    }  # fmt: skip
    (total,) = [m for m in metrics if m.name == "hw.host.energy"]
    assert total.sum.is_monotonic
    assert total.sum.data_points[0].as_double > 0


def test_the_dashboard_asks_for_what_there_is():
    import json
    import re
    from pathlib import Path

    path = Path(__file__).parents[2] / "deploy" / "grafana-power.json"
    panels = json.loads(path.read_text())["panels"]
    asked = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"\bhw_\w+(?=\{)", target["expr"])
    }
    with to_prometheus(Exported(Simulated()), 0) as port:
        text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert asked
    assert all(f"\n{name}" in text for name in asked)
