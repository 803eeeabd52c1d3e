"""One answer: a question has the same joules whichever way it is asked.

Python, command line, HTTP, client and job, to the last digit; and what a job's process
would be told is what the request says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

import irene
from irene.cli import main
from irene.errors import UsageError
from irene.predict.machines.finding import add_machine, keep_machine, remove_machine
from irene.predict.machines.learned.learned_machine import LearnedMachine
from irene.questions import QUESTIONS
from irene.questions.asker import Here
from irene.serve.client import Server, connect
from irene.serve.computing.questions import ask
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Settings
from irene.serve.jobs.request import read_request
from irene.serve.store import open_store
from irene.serve.uploads.storage import Uploads

from ..collect.test_learning import learned  # noqa: F401  a fixture
from .real_server import RealServer

Agree = Callable[[str, dict[str, Any]], dict[str, Any]]
pytestmark = pytest.mark.xdist_group("serve")
SMALL, SERVED = "bert-l2-h128", "qwen2.5-0.5b"
COMMANDS = {"energy": "predict", "tree": "trace"}
POSITIONAL = {"compare": "subject", "leaderboard": "search"}
TABLE = "model,accuracy\nbert-l2-h128,83\nbert-l2-h256,85\n"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _traced() -> Iterator[tuple[str, dict[str, Any]]]:
    """Small models on the machine that was measured, and kernel by kernel on GPUs."""
    settings = product(("forward", "train"), (None, "fp32", "bf16"), (None, "sdpa"))
    for (phase, dtype, attention), batch in product(settings, (1, 4)):
        run = _given(phase=phase, dtype=dtype, attention=attention, batch_size=batch)
        yield "energy", {"model": SMALL, "on": "pc1", "seq_len": 16, **run}
    for on, dtype, attention in product(
        ("h100", "b200"), (None, "fp32", "fp16"), (None, "eager")
    ):
        run = _given(dtype=dtype, attention=attention, seq_len=16)
        yield "energy", {"model": SMALL, "on": on, **run}
        yield "tree", {"model": SMALL, **run, "batch_size": 1 + len(on)}


def _servings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Servings of a language model on data-centre GPUs."""
    phases: tuple[dict[str, Any], ...] = (
        {"phase": "prefill", "seq_len": 300},
        {"phase": "decode", "context_len": 500},
        {"prompt_len": 700, "output_len": 300},
    )
    for on, phase, bits, ranks, cache, batch in product(
        ("h100", "b200"),
        phases,
        (None, "fp8", "bf16"),
        (None, 2),
        (None, "fp8"),
        (1, 64),
    ):
        run = _given(quantization=bits, tensor_parallel=ranks, cache_dtype=cache)
        yield "energy", {"model": SERVED, "on": on, "batch_size": batch, **phase, **run}
    for on, phase in product(("h200", "b200"), phases):
        asked = {"model": SERVED, "on": on, "batch_size": 8, "dtype": "fp16", **phase}
        yield "bottlenecks", asked
        yield "cost", {**asked, "region": "DE", "price_per_kwh": 0.3}
    for on, phase in zip(("h100", "h200", "b200"), phases, strict=True):
        asked = {"model": SERVED, "on": on, "batch_size": 8, **phase}
        yield "what-if", {**asked, "set": ["batch_size=8,16,64"]}
        yield "what-if", {**asked, "set": ["quantization=fp8", "cache_dtype=fp8"]}
        yield "suggest", asked
        yield (
            "compare",
            {
                "subject": [SERVED, f"{SERVED}@b64", f"qwen3-0.6b@on={on}"],
                **{k: v for k, v in asked.items() if k != "model"},
            },
        )
    for how in (
        {"on": "rtx4090", "engine": "llama.cpp", "quantization": "q4_K_M"},
        {"on": "h100", "engine": "unknown", "at": "wall"},
        {"on": "b200", "engine": "vllm-2024", "cached_prompt": 0.5},
        {"on": "h200", "power_limit_w": 450.0, "step_ms": 20.0},
    ):
        yield "energy", {"model": SERVED, **phases[2], **how}
    for on in ("h100", "b200"):
        yield "leaderboard", {"search": "qwen2.5", "on": on, **phases[2]}
    several = {"batch_size": "1,64", "tensor_parallel": "1,2", "max_latency": "20ms"}
    yield "serve-plan", {"model": SERVED, "on": "h100,b200", **phases[2], **several}


def _others() -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything else, where a run is traced."""
    run = {"batch_size": 2, "seq_len": 16}
    asked = {"model": SMALL, **run}
    yield "bottlenecks", asked
    yield "cost", {**asked, "per_day": 1000.0}
    yield "plan-training", {**asked, "tokens": 1e6, "gpus": 2, "region": "SE"}
    yield "card", {**asked, "region": "SE"}
    without = ["sizes", "trade-off", "suggestions"]
    yield "report", {**asked, "on": "pc1", "without": without, "title": "Small"}
    yield "suggest", asked
    yield "compare", {"subject": [SMALL, "bert-l2-h256@b4"], "per": "token", **run}
    yield "what-if", {**asked, "set": ["num_hidden_layers=1,3"]}
    # Its changes ship as templates: nothing is traced, five times over.
    yield "what-if", {**run, "model": "distilbert-base-uncased", "sensitivity": True}
    yield "what-if", {"model": SMALL, "over": "seq_len", "under_j": 0.5}
    yield "compare", {"subject": [SMALL, "bert-l2-h256@b4"], "over": "seq_len"}
    yield "tree", {**asked, "taken_from": "template"}
    yield "trade-off", {**run, "accuracies": TABLE}
    yield "trade-off", {**run, "on": "b200", "accuracies": TABLE, "at_least": 84.0}
    yield "leaderboard", {"search": "bert-l2", **run}
    trained = {"model": SMALL, "on": "h100", "phase": "train", "seq_len": 16}
    yield "energy", trained
    yield "bottlenecks", {**trained, "dtype": "fp32", "attention": "eager"}
    yield "compare", {"subject": [SMALL, f"{SMALL}@on=h100"], **run}
    yield "what-if", {"model": SMALL, "on": "h100", "dtype": "fp32,bf16"}
    yield "energy", {"model": "pythia-14m", "phase": "decode", "context_len": 32}
    yield "energy", {"model": "t5-small", "seq_len": 16, "decoder_len": 8}


def _learned() -> Iterator[tuple[str, dict[str, Any]]]:
    """On the machine that was learned here, named or not, and on one that was added."""
    run = {"batch_size": 2, "seq_len": 16}
    for on in ("this-machine", None, "lab"):
        asked = {"model": SMALL, **_given(on=on), **run}
        yield "energy", {**asked, "phase": "train"}
        yield "energy", {**asked, "dtype": "bf16", "attention": "sdpa"}
        yield "bottlenecks", asked
        yield "what-if", {**asked, "set": ["num_hidden_layers=1,3"]}
        yield "trade-off", {**run, **_given(on=on), "accuracies": TABLE}
    asked = {"model": SMALL, "on": "this-machine", **run}
    yield "cost", {**asked, "region": "SE"}
    yield "card", asked
    yield "suggest", asked
    yield "plan-training", {**asked, "tokens": 1e6}
    yield "report", {**asked, "without": ["sizes", "trade-off", "suggestions"]}
    yield "compare", {"subject": [SMALL, f"{SMALL}@on=pc1", f"{SMALL}@on=lab"], **run}
    yield "leaderboard", {"search": "bert-l2", "on": "this-machine", **run}


ASKED = [*_traced(), *_servings(), *_others()]


def _words(question: Any, values: dict[str, Any], folder: Path) -> list[str]:
    """The question as a command."""
    words = [COMMANDS.get(question.name, question.name)]
    main_one = POSITIONAL.get(question.name, "model")
    for name, value in values.items():
        several = value if isinstance(value, list) else [value]
        if name == main_one:
            words += several
        elif name == "accuracies":
            file = folder / "accuracies.csv"
            file.write_text(value)
            words += ["--accuracy", str(file)]
        elif value is True:
            words.append(f"--{name}")
        else:
            for each in several:
                words += [f"--{name.replace('_', '-')}", str(each)]
    if question.name == "leaderboard":
        words += ["--no-cache", "--jobs", "1"]
    return [*words, "--json"]


@pytest.fixture(scope="module")
def server(served: RealServer) -> Server:
    return connect(served.url, timeout_s=300)


@pytest.fixture(scope="module")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Uploads]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('one') / 'store.sqlite'}")
    yield Uploads(store.engine)
    store.close()


def test_there_are_enough_of_them() -> None:
    assert len(ASKED) >= 200
    assert {name for name, _ in ASKED} == set(QUESTIONS)


@pytest.fixture
def agree(
    api: httpx.Client, server: Server, uploads: Uploads, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Agree:  # fmt: skip
    """Asks a question all ways; the document that all of them give."""
    return partial(_agree, api, server, uploads, tmp_path, capsys)


@pytest.mark.parametrize(("name", "values"), ASKED)
def test_python_command_line_http_client_and_job_agree(
    name: str, values: dict[str, Any], agree: Agree
) -> None:
    agree(name, values)


@pytest.fixture
def lab(learned: LearnedMachine, tmp_path: Path) -> Iterator[Path]:  # noqa: F811
    """The file of a machine that is this one, and the one that was added as `lab`."""
    keep_machine(learned)
    other = replace(learned, hardware=replace(learned.hardware, name="lab"))
    (tmp_path / "lab.json").write_text(json.dumps(other.to_dict()))
    add_machine(tmp_path / "lab.json")
    yield tmp_path / "lab.json"
    remove_machine("lab")
    remove_machine("this-machine")


def test_so_they_do_on_the_machine_learned_here_and_on_one_that_was_added(
    lab: Path, agree: Agree
) -> None:
    found = [agree(name, values) for name, values in _learned()]
    energies = [each["hardware"]["name"] for each in found if "tree" in each]
    assert energies == ["this-machine"] * 4 + ["lab"] * 2


def test_a_file_gives_what_its_machine_gives_and_strangers_name_no_files(
    lab: Path, api: httpx.Client, server: Server, uploads: Uploads,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    asked = {"model": SMALL, "batch_size": 2, "seq_len": 16}
    served = api.get("/energy", params={**asked, "on": "lab"}).json()
    question = QUESTIONS["energy"].asked({**asked, "on": str(lab)})
    assert question.document(Here().ask(question)) == served
    assert main(_words(question, {**asked, "on": str(lab)}, lab.parent)) == 0
    assert json.loads(capsys.readouterr().out) == served
    tree = irene.predict(irene.trace(**asked), on=str(lab))
    assert tree.energy_of(0).joules == served["energy_j"]

    by_path = {**asked, "on": str(lab)}
    assert api.get("/energy", params=by_path).status_code == 404
    with pytest.raises(UsageError, match="unknown hardware"):
        server.ask(question)
    with pytest.raises(Problem, match="unknown hardware"):
        read_request(by_path, Settings(lab.parent), uploads)


def _agree(
    api: httpx.Client, server: Server, uploads: Uploads, folder: Path,
    capsys: pytest.CaptureFixture[str], name: str, values: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    kind = QUESTIONS[name]
    question = kind.asked(
        {**values, **({"cache": False, "jobs": 1} if name == "leaderboard" else {})}
    )
    found = Here().ask(question)
    here: dict[str, Any] = json.loads(json.dumps(question.document(found)))

    assert main(_words(question, values, folder)) == 0
    assert json.loads(capsys.readouterr().out) == here

    query = {k: v for k, v in values.items() if k != "accuracies"}
    if name == "trade-off":
        csv = {"content-type": "text/csv"}
        reply = api.post(f"/{name}", params=query, content=TABLE, headers=csv)
    else:
        reply = api.get(f"/{name}", params=query)
    assert reply.status_code == 200, reply.text
    assert reply.json() == here

    answer = server.ask(kind.asked(values))
    if name in ("energy", "tree"):
        assert answer.energy_of(0) == found.energy_of(0)
        assert answer.spec.chosen == tuple(here["spec"].get("chosen", ()))
    else:
        assert json.loads(json.dumps(question.document(answer))) == here

    if name == "energy":
        told = read_request(dict(values), Settings(folder), uploads)
        arguments = {k: told[k] for k in ("model", "run", "hardware")}
        assert json.loads(ask("energy", arguments)) == here
    return here


@pytest.mark.parametrize("values", [ASKED[0][1], ASKED[60][1]])
def test_a_real_job_gives_the_same(
    values: dict[str, Any], server: Server, api: httpx.Client
) -> None:
    options = {k: v for k, v in values.items() if k not in ("model", "on")}
    job = server.submit(values["model"], on=values["on"], **options)
    question = QUESTIONS["energy"].asked(values)
    assert job.result().energy_of(0) == Here().ask(question).energy_of(0)
