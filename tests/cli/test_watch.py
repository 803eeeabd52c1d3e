"""`irene watch` as a user meets it, beside a made-up server with made-up power."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from irene.cli import main

from ..account.served.made_server import MadeEngine, answering
from ..measure.made_up_power import DRAM_WATTS, WATTS, made_up_meter


@pytest.fixture
def watched(tmp_path: Path):
    """A server that takes a step at every question, and a meter of 30 W."""
    engine = MadeEngine(3)

    def metrics() -> str:
        for _ in range(40):
            engine.step()
        return engine.metrics()

    with answering({"/metrics": metrics}) as url:
        yield [url, "--meters", made_up_meter(tmp_path / "power.csv"), "--every", "0.1"]


def run(capsys, *words: str) -> tuple[int, str, str]:
    try:
        code = main(["watch", *words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


def test_lines_of_json_say_all(capsys, watched):
    words = ("--seconds", "0.45", "--json", "--on", "h100")
    code, out, err = run(capsys, *watched, *words)
    assert (code, err) == (0, "")
    last = json.loads(out.splitlines()[-1])
    assert (last["schema"], last["engine"]) == ("irene.watch/1", "vLLM")
    total = last["total"]
    assert total["power_w"] == pytest.approx(WATTS + DRAM_WATTS, rel=1e-3)
    assert total["energy_j"] == pytest.approx(total["power_w"] * total["seconds"])
    per_token = total["energy_j"] / total["output_tokens"]
    assert total["j_per_output_token"] == pytest.approx(per_token)
    assert sum(last["split"].values()) == pytest.approx(
        last["now"]["energy_j"], rel=1e-9
    )
    assert last["predicted"]["run"]["batch_size"] >= 1
    assert "below what is predicted" in last["verdict"]
    beside = "seen is cpu-package, dram, predicted gpu-board"
    assert last["verdict"].endswith(beside)
    assert last["source"] == "measured"


def test_each_request_of_ollama_gets_its_part(capsys, tmp_path, monkeypatch):
    """Its answers tell the tokens that it does not count."""
    from irene.cli.running import watch

    answers = tmp_path / "answers.jsonl"
    answers.write_text("")

    def look_on(asked, screen) -> None:
        for count in (10, 30, 0):
            time.sleep(0.05)
            ended = datetime.now(UTC).isoformat()
            told = {
                "model": "tiny", "created_at": ended, "eval_count": count,
                "prompt_eval_count": 2 * count, "prompt_eval_duration": 10**7,
                "eval_duration": 3 * 10**7,
            }  # fmt: skip
            with answers.open("a") as out:
                print(json.dumps(told) if count else "so far", file=out)
            screen.look()

    monkeypatch.setattr(watch, "_look_on", look_on)
    with answering({"/api/ps": {"models": [{"name": "tiny"}]}}) as url:
        words = [url, "--meters", made_up_meter(tmp_path / "power.csv")]
        words += ["--requests", str(answers)]
        code, out, err = run(capsys, *words, "--json")
        assert code == 0
        assert err.count("line 3 of") == 1
        documents = [json.loads(line) for line in out.splitlines()]
        last = documents[-1]
        assert [d["requests"]["waiting"] for d in documents] == [1, 2, 2, 0]
        assert (last["total"]["output_tokens"], last["total"]["requests"]) == (40, 2)
        ended = last["requests"]["ended"]
        assert [each["output_tokens"] for each in ended] == [10, 30]
        whole_j = sum(each["energy_j"] for each in ended) + last["requests"]["idle_j"]
        assert whole_j == pytest.approx(last["total"]["energy_j"], rel=1e-9)
        assert last["requests"]["by"] == "equal"
        answers.write_text("")
        code, out, err = run(capsys, *words, "--wait", "0")
        assert "Ollama · tiny" in out
        assert "J median of 2" in out


def test_people_read_what_it_takes_and_what_is_predicted(capsys, watched):
    code, out, _ = run(capsys, *watched, "--seconds", "0.25", "--on", "h100")
    assert code == 0
    assert out.startswith("vLLM · meta-llama/Llama-3.1-8B-Instruct · http://127")
    for words in (
        "30 W, cpu-package, dram",
        "J per output token",
        "% cached",
        "on h100",
    ):
        assert words in out


def test_an_estimate_is_told_as_one(capsys, watched, tmp_path):
    meter = made_up_meter(tmp_path / "load.csv", source="estimated")
    words = [watched[0], "--meters", meter, "--every", "0.1", "--seconds", "0.25"]
    assert "30 W, cpu-package, dram, estimated\n" in run(capsys, *words)[1]


def test_prometheus_gets_tokens_and_joules(capsys, watched, monkeypatch):
    from urllib.request import urlopen

    from irene.cli.running import watch

    texts = []

    def look_and_scrape(options, screen) -> None:
        for _ in range(2):
            screen.look()
        address = capsys.readouterr().err.split()[-1]
        texts.append(urlopen(address).read().decode())

    monkeypatch.setattr(watch, "_look_on", look_and_scrape)
    assert run(capsys, *watched, "--prometheus", "0")[0] == 0
    label = 'gen_ai_request_model="meta-llama/Llama-3.1-8B-Instruct"'
    assert f"irene_server_energy_joules_total{{{label}}}" in texts[0]
    assert f'{{{label},gen_ai_token_type="output"}}' in texts[0]
    assert "hw_host_power_watts" in texts[0]
    dashboard = Path(__file__).parents[2] / "deploy" / "grafana-watch.json"
    import re

    asked = set(re.findall(r"\b(?:hw|irene)_\w+", dashboard.read_text()))
    assert asked
    assert all(f"\n{name}" in texts[0] for name in asked)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["localhost:8000"], 2, "is no address"),
        (["http://localhost:80000"], 2, "is no address"),
        (["http://127.0.0.1:1"], 1, "nothing answers at 127.0.0.1:1"),
        (["URL", "--otlp", "collector"], 2, "'collector' is no address"),
        (["URL", "--every", "0"], 2, "every must be at least 0.001"),
        (["URL", "--wait", "-1"], 2, "wait must be at least 0"),
        (["URL", "--requests", "nowhere.jsonl"], 2, "no file nowhere.jsonl"),
        (["URL", "--requests", "-", "--proxy", "0"], 2, "not both"),
        (["URL", "--quantization", "fp8"], 2, "give --on"),
        (["URL", "--on", "pc1"], 2, "serves no language models"),
        (["URL", "--on", "h100", "--model", "lama-3.1-8b"], 2, "did you mean"),
    ],
)
def test_mistakes_are_told_in_one_sentence(capsys, watched, words, code, says):
    words = [watched[0] if word == "URL" else word for word in words]
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


def test_meters_here_say_nothing_of_another_machine(capsys, monkeypatch):
    from irene.account.served.server_counts import Server, ServerCounts

    monkeypatch.setattr(Server, "read", lambda _: ServerCounts("vLLM", "m"))
    monkeypatch.setattr(Server, "_json", lambda *_: None)
    code, _, err = run(capsys, "http://gpu7:8000")
    assert code == 2
    assert "--meters prometheus:http://gpu7:9400/metrics" in err
