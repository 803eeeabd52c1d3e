"""What is counted, as Prometheus and OpenTelemetry see it."""

import gzip
import math
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
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
LOST = Channel("rapl:package-1", "energy_j", missing="permission denied")


class Simulated:
    """A sampler with a clock of its own: a second for each question."""

    channels = (CPU, CORE, GPU, LOAD, LOST)

    def __init__(self, set_back_at: float = math.inf) -> None:
        self._totals = RunningTotals(self.channels, 1.0)
        self._second, self._set_back_at = 0, set_back_at

    def sample_now(self):
        second, self._second = self._second, self._second + 1
        package_j = second * 30.0 - (1e3 if second >= self._set_back_at else 0.0)
        row = [package_j, second * 20.0, 250.0, 50.0, math.nan]
        self._totals.add(second * 10**9, row)
        return self._totals.snapshot()

    def between(self, begin, end):
        return self._totals.between(begin, end)


def scraped(sampler, times=2):
    """What a scrape sees, by name and by what tells one from the other."""
    from prometheus_client.parser import text_string_to_metric_families as parsed

    with to_prometheus(Exported(sampler), 0) as port:
        for _ in range(times):
            text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        with pytest.raises(UsageError, match="cannot answer on port"):
            to_prometheus(Exported(Simulated()), port).__enter__()
    samples = [sample for family in parsed(text) for sample in family.samples]
    return {
        (
            s.name,
            *(s.labels[k] for k in ("hw_id", "hw_state") if k in s.labels),
        ): s.value
        for s in samples
    }


def test_prometheus_sees_every_channel_and_their_sum():
    assert scraped(Simulated()) == {
        ("hw_energy_joules_total", "rapl:package-0"): 60.0,
        ("hw_energy_joules_total", "rapl:core"): 40.0,
        ("hw_energy_joules_total", "nvml:0:power"): 500.0,
        ("hw_energy_error_joules", "rapl:package-0"): 0.0,
        ("hw_energy_error_joules", "rapl:core"): 0.0,
        ("hw_energy_error_joules", "nvml:0:power"): 0.0,
        ("hw_power_watts", "rapl:package-0"): 30.0,
        ("hw_power_watts", "rapl:core"): 20.0,
        ("hw_power_watts", "nvml:0:power"): 250.0,
        ("hw_status", "rapl:package-0", "ok"): 1.0,
        ("hw_status", "rapl:core", "ok"): 1.0,
        ("hw_status", "nvml:0:power", "ok"): 1.0,
        ("hw_status", "rapl:package-1", "failed"): 1.0,
        ("hw_host_energy_joules_total",): 560.0,
        ("hw_host_energy_error_joules",): 0.0,
        ("hw_host_power_watts",): 280.0,
    }


def test_a_counter_that_was_set_back_is_told_and_widens_the_sum():
    found = scraped(Simulated(set_back_at=3), times=4)  # 4 s, one of them not known
    assert found["hw_status", "rapl:package-0", "degraded"] == 1.0
    assert found["hw_host_energy_joules_total",] == 4 * 250.0 + 3 * 30.0
    assert found["hw_host_energy_error_joules",] == pytest.approx(30.0)


def test_a_collector_of_opentelemetry_gets_the_conventional_names():
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
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
        ("hw.energy", "J"), ("hw.energy.error", "J"), ("hw.power", "W"),
        ("hw.host.energy", "J"), ("hw.host.energy.error", "J"), ("hw.host.power", "W"),
        ("hw.status", "1"),
    }  # fmt: skip
    (total,) = [m for m in metrics if m.name == "hw.host.energy"]
    assert total.sum.is_monotonic
    assert total.sum.data_points[0].as_double > 0


def test_the_dashboard_asks_for_what_there_is():
    path = Path(__file__).parents[2] / "deploy" / "grafana-power.json"
    labels = {"hw_id", "hw_state"}
    asked = set(re.findall(r"\bhw_\w+", path.read_text())) - labels
    assert asked
    assert asked <= {name for name, *_ in scraped(Simulated())}
