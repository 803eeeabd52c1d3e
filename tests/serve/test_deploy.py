"""The files of `deploy/`, tried with the programs that read them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from ctypes.util import find_library
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml

from irene.cli import build_parser
from irene.cli.options import duration_s
from irene.serve.computing.worker import NICE
from irene.serve.http import rooms
from irene.serve.http.metrics import Metrics

from .real_server import RealServer

DEPLOY = Path(__file__).parents[2] / "deploy"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="apt-get install nginx-light")
MAIN = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  include {folder}/site.conf;
}}
"""


class Upstream(BaseHTTPRequestHandler):
    """Says which client it is told of."""

    def do_GET(self) -> None:
        body = self.headers.get("X-Forwarded-For", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real nginx with our file: only certificate, ports and rate are others."""
    assert NGINX is not None
    folder = tmp_path_factory.mktemp("nginx")
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    port, plain = free_port(), free_port()
    site = (DEPLOY / "nginx.conf").read_text()
    site = re.sub(r"listen \[::\].*;\n", "", site)
    site = site.replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace("listen 80;", f"listen 127.0.0.1:{plain};")
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{upstream.server_port}")
    site = site.replace("/etc/letsencrypt/live/irene.example", str(folder))
    assert "rate=50r/s" in site
    site = site.replace("rate=50r/s", "rate=1r/m").replace("burst=200", "burst=20")
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=irene.example", "-keyout", str(folder / "privkey.pem")]
    words += ["-out", str(folder / "fullchain.pem")]
    subprocess.run(words, check=True, capture_output=True)
    nginx = [NGINX, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    checked = subprocess.run(
        [*nginx, "-t"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(nginx, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        upstream.shutdown()
        upstream.server_close()


@needs_nginx
@pytest.mark.parametrize("path", ["/", "/api/v1/jobs/0123abcd/events", "/metrics"])
def test_nginx_says_itself_who_the_client_is(front: str, path: str) -> None:
    forged = {"X-Forwarded-For": "1.2.3.4", "Host": "irene.example"}
    found = httpx.get(front + path, headers=forged, verify=False)
    assert found.text == "127.0.0.1"
    assert "max-age" in found.headers["strict-transport-security"]


@needs_nginx
def test_nginx_limits_the_rate_of_a_client(front: str) -> None:
    way = httpx.HTTPTransport(verify=False, local_address="127.0.0.2")
    headers = {"Host": "irene.example"}
    with httpx.Client(transport=way, headers=headers) as client:
        found = [client.get(f"{front}/x").status_code for _ in range(25)]
    assert found == [200] * 21 + [429] * 4


def test_the_unit_says_what_the_command_takes() -> None:
    unit = (DEPLOY / "irene.service").read_text().replace("\\\n", " ")
    found = re.search(
        r"^ExecStart=/opt/irene/bin/irene serve (.*)$", unit, re.MULTILINE
    )
    assert found is not None
    options = build_parser("serve").parse_args(found[1].split())
    assert duration_s(options.retain) == 90 * 86_400
    assert "MemoryMax=" in unit


def test_systemd_finds_the_unit_safe(tmp_path: Path) -> None:
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("apt-get install systemd")
    unit = tmp_path / "irene.service"
    text = (DEPLOY / "irene.service").read_text()
    unit.write_text(text.replace("/opt/irene/bin/irene", "/bin/true"))
    words = [analyse, "security", "--offline=true", "--threshold=20", str(unit)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if "exposure level" not in found.stdout:
        pytest.skip(f"systemd-analyze cannot look at a file: {found.stderr[:200]}")
    assert found.returncode == 0, found.stdout[-300:]


FILTERED = """
import ctypes, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
rules = ctypes.c_void_p(library.seccomp_init(0x00050001))  # all others: EPERM
for name in sys.argv[1].split():
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        library.seccomp_rule_add(rules, 0x7FFF0000, number, 0)
assert library.seccomp_load(rules) == 0
from irene.cli import main
sys.exit(main(["serve", "--port", "0", *sys.argv[2:]]))
"""


def calls(name: str) -> set[str]:
    """The system calls of a group of systemd's, or the one of that name."""
    if not name.startswith("@"):
        return {name}
    words = ["systemd-analyze", "syscall-filter", name]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    inside = [line.strip() for line in told.splitlines()[1:] if "#" not in line]
    return set().union(*map(calls, filter(None, inside)))


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or find_library("seccomp") is None,
    reason="apt-get install systemd",
)
def test_the_calls_that_the_unit_allows_are_all_that_a_server_needs(
    tmp_path: Path,
) -> None:
    unit = (DEPLOY / "irene.service").read_text()
    allowed: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
        some = set().union(*map(calls, line.removeprefix("~").split()))
        allowed = allowed - some if line.startswith("~") else allowed | some
    words = (" ".join(allowed), "--data-dir", str(tmp_path), "--no-measuring")
    server = RealServer(tmp_path, tmp_path / "log", program=("-c", FILTERED, *words))
    try:
        server.start()  # it is ready: a process computes
        niceness = {
            int(file.read_text().rpartition(")")[2].split()[16])
            for child in Path(f"/proc/{server.process.pid}/task").glob("*/children")
            for pid in child.read_text().split()
            if (file := Path(f"/proc/{pid}/stat")).exists()
        }
        assert max(niceness) == min(19, os.nice(0) + rooms.NICE + NICE)
    finally:
        server.stop()


def test_what_the_image_installs_is_pinned_by_hashes_as_elsewhere() -> None:
    text = (DEPLOY / "requirements.txt").read_text().replace("\\\n", " ")
    pins = dict(
        line.split()[0].split("==")
        for line in text.splitlines()
        if "--hash=sha256:" in line
    )
    assert len(pins) == len(text.splitlines())
    assert {"fastapi", "uvicorn", "sqlalchemy", "torch", "hatchling"} <= set(pins)
    told = (DEPLOY.parent / "constraints.txt").read_text()
    known = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", told, re.MULTILINE))
    others = {name: pin for name, pin in pins.items() if known.get(name, pin) != pin}
    assert others == {}
    image = (DEPLOY / "Dockerfile").read_text()
    assert "--require-hashes" in image
    assert re.search(r"^ARG BASE=python:3\.11\.\d+-slim\S*@sha256:\w{64}$", image, re.M)
    assert re.findall(r"^FROM (\S+)", image, re.M) == ["${BASE}"] * 2


def test_compose_says_what_the_command_takes() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    words = document["services"]["irene"]["command"]
    assert words[:2] == ["irene", "serve"]
    options = build_parser("serve").parse_args(words[2:])
    assert options.store == "postgresql://irene@db/irene"
    assert options.proxy == ["172.16.0.0/12"]


def test_the_dashboard_of_grafana_asks_for_metrics_that_there_are() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    metrics = Metrics()
    names = {each.name for each in metrics.registry.collect()}
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    for expression in asked:
        (name,) = re.findall(r"irene_\w+", expression)
        assert re.sub("_(total|bucket)$", "", name) in names, expression
