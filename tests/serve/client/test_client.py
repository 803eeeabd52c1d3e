"""The client against real servers: its answers are those of the functions here."""

from __future__ import annotations

import contextlib
import http.server
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import irene
from irene.analyse.pareto import AccuracyRow
from irene.errors import (
    FormatError,
    LimitError,
    SpecError,
    UnknownModelError,
    UsageError,
)
from irene.serve.client import JobStatus, Server, UnreachableError, Upload
from irene.serve.client.client_jobs import ServerEvent, parse_events
from irene.serve.client.documents import read_answer, read_fields
from irene.serve.client.transport import Reply
from irene.serve.http.problems import Problem
from irene.trace import catalogue
from irene.tree import ModelTree

from ..real_server import RealServer

# Workers of a test run do not start a server each.
pytestmark = pytest.mark.xdist_group("serve")

MODEL = "bert-l2-h128"
RUN: dict[str, Any] = {"batch_size": 2, "seq_len": 16}
TOKEN = "a token of tests"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(served: RealServer) -> Server:
    return irene.connect(served.url)


@pytest.fixture(scope="module")
def tree() -> ModelTree:
    return irene.predict(MODEL, **RUN)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server that wants a token and takes few requests; nothing is computed on it."""
    folder = tmp_path_factory.mktemp("guarded")
    options = ("--token", TOKEN, "--rate", "1", "--port", str(free_port()))
    running = RealServer(folder / "data", folder / "log", options)
    try:
        yield running.start(ready=False)
    finally:
        running.stop()


def test_trees_are_those_of_the_functions_here(server: Server, tree: ModelTree) -> None:
    assert server.predict(MODEL, **RUN) == tree
    assert server.trace(MODEL, **RUN) == irene.trace(MODEL, **RUN)


def test_questions_have_the_answers_of_the_functions_here(
    server: Server, tree: ModelTree
) -> None:
    assert server.bottlenecks(MODEL, **RUN) == irene.bottlenecks(tree)
    asked: dict[str, Any] = {
        "region": "DE",
        "per_day": 1e4,
        "price_per_kwh": 0.3,
        "pue": 1.2,
    }
    assert server.cost(MODEL, **asked, **RUN) == irene.cost(tree, **asked)
    assert server.suggest(MODEL, **RUN) == irene.suggest(MODEL, **RUN)
    known = "distilbert-base-uncased"  # its changes ship as templates
    assert server.sensitivity(known, **RUN) == irene.sensitivity(known, **RUN)


def test_a_comparison_is_the_one_made_here(server: Server) -> None:
    here = irene.compare(MODEL, f"{MODEL}@b4", per="sequence", **RUN)
    assert server.compare(MODEL, f"{MODEL}@b4", per="sequence", **RUN) == here


def test_a_tree_is_brought_where_one_is_asked_about(
    server: Server, tree: ModelTree
) -> None:
    assert server.bottlenecks(tree).energy == irene.bottlenecks(tree).energy
    other = irene.predict(MODEL, batch_size=4, seq_len=16)
    there, here = server.compare(tree, other), irene.compare(tree, other)
    assert there.difference_j == pytest.approx(here.difference_j)


@pytest.mark.parametrize(
    "choices",
    [
        {"batch_size": [1, 2, 4], "hidden_act": ["relu", "gelu"]},
        {"seq_len": [32], "num_hidden_layers": [1]},
        {"norm": ["rms_norm"]},
    ],
)
def test_what_if_starts_from_the_model_as_it_is(
    server: Server, choices: dict[str, list[object]]
) -> None:
    here = irene.what_if(MODEL, choices, **RUN)
    there = server.what_if(MODEL, choices, **RUN)
    assert there == here


def test_a_table_of_ones_own_is_sent(server: Server) -> None:
    rows = [AccuracyRow(MODEL, 80.0), AccuracyRow('"mine", too', 90.0, 0.25, "dev")]
    there = server.trade_off(rows, at_least=85, **RUN)
    assert there == irene.trade_off(rows, at_least=85, **RUN)
    assert there.chosen is not None
    assert there.chosen.model == '"mine", too'


def test_a_leaderboard_is_waited_for(server: Server) -> None:
    told: list[tuple[int, int, str]] = []
    found = server.leaderboard(
        "bert", limit=3, progress=lambda *each: told.append(each), **RUN
    )
    assert found.pending == 0
    assert len(found.models) + len(found.left_out) == 3
    joules = [each.per_sequence_j for each in found.models]
    assert joules == sorted(joules, key=lambda value: value or 0.0)
    assert all(done < total == 3 for done, total, _ in told)


def test_models_and_machines_are_known(server: Server) -> None:
    assert server.models("bert base") == catalogue.search("bert base")
    assert [each.kind for each in server.models(kind="audio", limit=1)] == ["audio"]
    machines = {each.name: each for each in server.hardware()}
    assert machines["pc1"].hardware.covers == "wall"
    assert machines["pc1"].about["domain"]
    assert machines["h100"].about["datasheet"]


def test_what_is_known_is_not_sent_again(server: Server) -> None:
    first = server.ask("energy", model=MODEL, **RUN)
    again = server.ask("energy", model=MODEL, **RUN)
    assert not first.was_known
    assert again.was_known
    assert again.document == first.document


def test_a_permalink_gives_the_answer(server: Server, tree: ModelTree) -> None:
    reply = server.ask("energy", model=MODEL, level="math", **RUN)
    assert reply.key is not None
    assert server.answer(reply.key) == tree
    assert server.answer(f"{server.base_url}/api/v1/answers/{reply.key}") == tree
    costs = server.ask("cost", model=MODEL, **RUN)
    assert server.answer(costs.key or "") == irene.cost(tree)
    table = server.ask("tree", model=MODEL, format="csv", **RUN)
    assert str(server.answer(table.key or "")).startswith("path,")
    with pytest.raises(UsageError, match="no answer"):
        server.answer("0" * 32)


def test_configs_and_trees_are_brought(
    server: Server, tree: ModelTree, tmp_path: Path
) -> None:
    config = dict(catalogue.entries()[MODEL].config)
    brought = server.upload(config)
    assert brought.kind == "config"
    assert server.predict(brought, **RUN).total() == tree.total()
    file = tmp_path / "My tree, ü.json"
    tree.save(file)
    saved = server.upload(file)
    assert (saved.kind, saved.name) == ("tree", file.name)
    assert server.bottlenecks(saved).energy == irene.bottlenecks(tree).energy
    assert server.upload(tree).kind == "tree"
    difference = server.compare(saved, brought, **RUN)
    assert not difference.is_real
    with pytest.raises(UsageError, match="cannot read"):
        server.upload(tmp_path / "none.json")
    with pytest.raises(UsageError):
        server.upload({"model_type": "no such type"})


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        ("bert-bse", {}, UnknownModelError, "did you mean"),
        (MODEL, {"on": "nowhere"}, UsageError, "nowhere"),
        (MODEL, {"batch_size": 0}, SpecError, "batch_size"),
        (MODEL, {"batch_sise": 1}, UsageError, "batch_sise"),
        (MODEL, {"seq_len": 100_000}, UsageError, "512 positions"),
        ("upload:" + "0" * 32, {}, UsageError, "there is no"),
    ],
)
def test_errors_are_those_of_the_functions_here(
    server: Server,
    model: str,
    options: dict[str, object],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        server.predict(model, **options)  # type: ignore[arg-type]


def test_a_job_gives_its_tree(server: Server, tree: ModelTree) -> None:
    told: list[tuple[int, int, str]] = []
    job = server.submit(MODEL, **RUN)
    # A job's tree ends at the primitives, as that of `/energy` does by default.
    found = job.result(progress=lambda *each: told.append(each))
    assert found == tree.at_level("ml")
    assert told
    assert all(0 <= done <= total for done, total, _ in told)
    again = server.job(job.id)
    assert again.status == job.status
    assert [event.name for event in again.events()] == ["done"]
    with pytest.raises(UsageError, match="already"):
        again.cancel()


def test_a_job_is_cancelled(server: Server) -> None:
    job = server.submit("bert-base-uncased", batch_size=3)
    assert job.cancel().state == "cancelled"
    assert job.wait().is_final
    with pytest.raises(irene.IreneError, match="cancelled"):
        job.result()


def test_a_job_that_is_refused_says_why(server: Server) -> None:
    with pytest.raises(UnknownModelError, match="unknown model"):
        server.submit("bert-bse")
    with pytest.raises(UsageError, match="no job"):
        server.job("0" * 32)


def test_jobs_and_uploads_need_the_token(guarded: RealServer) -> None:
    config = dict(catalogue.entries()[MODEL].config)
    with pytest.raises(UsageError, match=r"token=…"):
        irene.connect(guarded.url).upload(config)
    server = irene.connect(guarded.url, token=TOKEN)
    assert isinstance(server.upload(config), Upload)
    assert TOKEN not in repr(server)


def test_a_job_is_followed_across_a_restart(guarded: RealServer) -> None:
    server = irene.connect(guarded.url, token=TOKEN)
    job = server.submit(MODEL, **RUN)
    events = job.events()
    assert not next(events).status.is_final
    guarded.stop(signal.SIGKILL)
    guarded.start(ready=False)
    with contextlib.suppress(UsageError):  # it may have ended by now
        server.job(job.id).cancel()
    assert [event.name for event in events][-1] == "done"
    assert job.status == server.job(job.id).status
    assert job.status.is_final


def ask_until_refused(server: Server) -> None:
    # More than the burst that a client is granted.
    for _ in range(400):
        server.models("bert-l2", limit=1)


def test_a_busy_server_is_asked_again(guarded: RealServer) -> None:
    impatient = irene.connect(guarded.url, timeout_s=0.9)
    with pytest.raises(Problem, match="too many requests") as caught:
        ask_until_refused(impatient)
    assert caught.value.status == 429
    assert irene.connect(guarded.url).models("bert-l2", limit=1)


def test_nobody_there_is_one_clear_message() -> None:
    server = irene.connect(f"http://127.0.0.1:{free_port()}", timeout_s=5)
    with pytest.raises(UnreachableError, match="no irene server answers at http") as e:
        server.predict(MODEL)
    assert "irene serve" in str(e.value)


class SomeSite(http.server.BaseHTTPRequestHandler):
    """Whatever else may listen at an address; what is below /old has moved."""

    def do_GET(self) -> None:
        is_old = self.path.startswith("/old")
        self.send_response(301 if is_old else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        if is_old:
            self.send_header("Location", "http://elsewhere.example/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_another_kind_of_server_is_told() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SomeSite) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_port}"
        with pytest.raises(UnreachableError, match="does not answer like an irene"):
            irene.connect(url).models()
        # Nobody is followed to another server: the token would go with it.
        with pytest.raises(UnreachableError, match=r"moved to http://elsewhere"):
            irene.connect(f"{url}/old", token=TOKEN).models()
        site.shutdown()


@pytest.mark.parametrize(
    "address", ["localhost:8000", "ftp://host", "http://", "http://a b", "http://u:p@h"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        irene.connect(address)


def test_an_address_may_end_in_the_api() -> None:
    assert irene.connect("http://host:1/api/v1/").base_url == "http://host:1"


def test_events_are_read_as_they_are_sent() -> None:
    sent = b": heartbeat\n\nretry: 2000\n\nid: 3\nevent: state\ndata: {\ndata: }\n\n"
    lines = [line + b"\n" for line in sent.split(b"\n")]
    assert list(parse_events(lines)) == [None, ServerEvent("state", "{\n}", "3")]


def test_answers_of_other_versions_are_told() -> None:
    with pytest.raises(FormatError, match=r"irene\.later/9"):
        read_answer(Reply(b'{"schema": "irene.later/9"}', "application/json"))
    with pytest.raises(FormatError, match="has no kind"):
        read_fields(JobStatus, {"id": "1"})
    with pytest.raises(FormatError, match="no Upload"):
        Upload({"id": "1"}, "link", "page")
    with pytest.raises(FormatError, match="not JSON"):
        _ = Reply(b"model,energy_j", "text/csv").document


def test_too_large_is_a_limit(server: Server) -> None:
    nested: dict[str, object] = {}
    for _ in range(500):
        nested = {"text_config": nested}
    with pytest.raises(LimitError):
        server.upload(nested)


WITHOUT_TORCH = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in {"torch", "transformers", "fastapi", "pydantic", "sqlalchemy"}:
            raise ImportError(name)

sys.meta_path.insert(0, Refusing())
import irene
tree = irene.connect(sys.argv[1]).predict("bert-l2-h128", batch_size=2, seq_len=16)
print(tree.total().energy_j)
"""


def test_the_client_needs_no_torch(served: RealServer, tree: ModelTree) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, served.url],
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.stderr == ""
    assert float(done.stdout) == tree.total().energy_j
