"""Servings as a user of the commands meets them."""

from __future__ import annotations

import json

import pytest

CHAT = ("--on", "h200", "-b", "16", "--prompt", "500", "--output", "200")


def test_a_generation_on_screen(run):
    code, out, _ = run("predict", "llama-3.1-8b", *CHAT, "--depth", "2")
    assert code == 0
    assert "prompt 500 · output 200 · bf16* · sdpa attention* · generate*" in out
    for words in ("per request", "per output token", "first token after", "prefill "):
        assert words in out


def test_a_generation_as_json(run):
    code, out, _ = run("predict", "qwen3-8b", *CHAT, "--json", "--step-ms", "12")
    document = json.loads(out)
    assert code == 0
    assert document["spec"]["phase"] == "generate"
    assert document["generation"]["tbt_s"] == pytest.approx(0.012)
    parts = [child["path"] for child in document["tree"]["children"]]
    assert parts == ["prefill", "decode"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("llama-3.1-8b", *CHAT, "--step-ms", "-1"),
            "--step-ms must be at",
        ),
        (("gpt2", "--prompt", "9"), "data-centre GPUs"),
        (("gpt2", *CHAT, "--tensor-parallel", "0"), "--tensor-parallel must be at"),
        (("gpt2", "--on", "h100", "--output", "0"), "--output-len must be at least 1"),
    ],
)
def test_wrong_requests_are_told(run, words, message):
    code, out, err = run("predict", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_the_ops_of_a_serving_without_energy(run):
    code, out, _ = run("trace", "gemma-3-1b", "--prompt", "9", "--output", "5")
    assert code == 0
    assert "generation_attention" in out


def test_which_models_can_be_served_under_a_limit(run):
    words = ("leaderboard", "qwen3", "--kind", "decoder", *CHAT, "--no-cache", "--json")
    _, everything, _ = run(*words)
    code, out, _ = run(*words, "--max-j-per-token", "0.2")
    assert code == 0
    models = json.loads(out)["models"]
    assert 0 < len(models) < len(json.loads(everything)["models"])
    assert all(each["per_token_j"] <= 0.2 for each in models)
    left_out = json.loads(out)["left_out"]
    assert any("0.2 J per token" in each["problem"] for each in left_out)
    code, _, err = run(*words, "--max-j-per-token", "1e-9")
    assert code == 2
    assert "no model takes" in err


def test_a_plan_tells_lengths_that_nobody_gave_as_chosen(run):
    words = ("serve-plan", "qwen2.5-0.5b", "--on", "h100", "--batch-size", "8")
    _, out, _ = run(*words, "--prompt", "100")
    assert "prompt 100, output 128* (*=chosen)" in out.splitlines()[0]
    _, out, _ = run(*words, "--prompt", "100", "--json")
    lengths = {"prompt_len": 100, "output_len": 128, "chosen": ["output_len"]}
    assert json.loads(out)["run"] == lengths
    _, out, _ = run(*words, "--prompt", "100", "--output", "10")
    assert out.splitlines()[0].endswith("prompt 100, output 10")


def test_a_sweep_over_batch_and_context_with_its_picture(run, tmp_path):
    picture = tmp_path / "sweep.svg"
    code, out, _ = run(
        "what-if", "llama-3.1-8b", "--on", "b200", "--phase", "decode",
        "-b", "1,8,64", "--context", "1000,8000", "--plot", str(picture), "--json",
    )  # fmt: skip
    assert code == 0
    rows = json.loads(out)["rows"]
    assert len(rows) == 6
    energy = {
        (r["settings"]["batch_size"], r["settings"]["context_len"]): r["per_token_j"]
        for r in rows
    }
    assert energy[64, 1000] < energy[8, 1000] < energy[1, 1000]
    assert energy[64, 1000] < energy[64, 8000]
    text = picture.read_text(encoding="utf-8")
    assert "energy per token" in text
    assert "context_len=8000" in text


def test_what_if_weights_had_fewer_bits(run):
    code, out, _ = run(
        "what-if", "llama-3.1-8b", *CHAT, "--quantization", "bf16,fp8"
    )  # fmt: skip
    assert code == 0
    assert "per output token" in out


def test_machines_and_phases_in_the_other_commands(run):
    code, out, _ = run("compare", "llama-3.1-8b", "qwen3-8b@on=b200", *CHAT, "--json")
    assert code == 0
    assert json.loads(out)["comparisons"]
    code, out, _ = run("cost", "llama-3.1-8b", *CHAT, "--json")
    assert code == 0
    per_query = json.loads(out)["per_query"]["joules"]
    _, told, _ = run("predict", "llama-3.1-8b", *CHAT, "--json")
    told_j = json.loads(told)["generation"]["j_per_request"]
    assert per_query == pytest.approx(told_j)
    code, out, _ = run("bottlenecks", "llama-3.1-8b", *CHAT)
    assert code == 0
    assert "decode.gap" in out
