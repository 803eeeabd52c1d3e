"""The command line as a user meets it: what is printed, where, and the exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from irene.cli import COMMANDS, main
from irene.tree import ModelTree, load


@pytest.fixture
def run(capsys):
    """Run the program in this process; returns exit code, output and errors."""

    def call(*words: str) -> tuple[int, str, str]:
        try:
            code = main(list(words))
        except SystemExit as stop:  # argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_without_a_command_it_explains_itself(run):
    code, out, _ = run()
    assert code == 0
    assert all(name in out for name in COMMANDS)
    assert "examples:" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "examples:" in out
    assert f"irene {name}" in out


def test_an_unknown_command_has_a_neighbour(run):
    code, out, err = run("trase")
    assert (code, out) == (2, "")
    assert "did you mean trace?" in err


def test_an_unknown_option_has_a_neighbour(run):
    code, out, err = run("predict", "gpt2", "--promt", "750")
    assert (code, out) == (2, "")
    assert "did you mean --prompt?" in err


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("hardware", "on"), ("precision", "dtype"), ("attn", "attention")],
)
def test_an_option_that_others_call_so_is_named(run, wrong, right):
    code, out, err = run("predict", "gpt2", f"--{wrong}", "x")
    assert (code, out) == (2, "")
    assert f"no option --{wrong}; did you mean --{right}?" in err


def test_a_value_of_another_option_is_told(run):
    code, out, err = run("predict", "gpt2", "--dtype", "fp8")
    assert (code, out) == (2, "")
    assert "'fp8' is for --quantization or --cache-dtype" in err


def test_a_missing_file_is_noticed_before_torch_is_loaded():
    code = (
        "import sys; from irene.cli import main; codes = [main([each, "
        "'no/config.json']) for each in ('predict', 'trace', 'suggest', 'cost', "
        "'measure')]; "
        "print(codes, 'torch' in sys.modules, 'scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[2, 2, 2, 2, 2] False False"
    assert done.stderr.count("cannot read no/config.json") == 5


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("irene com", "compare completion"),
        ("irene predict llama-3.1", "llama-3.1-405b llama-3.1-70b llama-3.1-8b"),
        ("irene predict --on h", "h100 h200"),
        ("irene cost --pri", "--price-per-kwh --price"),
    ],
)
def test_bash_completes(run, typed, offered):
    code, script, _ = run("completion", "bash")
    assert code == 0
    asking = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        'COMP_LINE=x _irene; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", asking], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == sorted(offered.split())


def test_zsh_and_fish_complete_too(run):
    assert run("completion", "zsh")[1].startswith("#compdef irene")
    fish = run("completion", "fish")[1].splitlines()
    assert "complete -c irene -n '__fish_seen_subcommand_from predict'" in "".join(fish)
    assert all(line.startswith("complete -c irene ") for line in fish)


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("irene 0.")


def test_the_tree_is_readable(run):
    code, out, err = run("trace", "bert-base-uncased", "-b", "8", "-s", "128")
    assert (code, err) == (0, "")
    assert "layer.0…11 ×12" in out
    assert "179.2 GFLOP (178.8 G in matrix products)" in out
    assert "109.5 M parameters" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "35.1%" in lines["attention"]
    assert "transpose" not in out  # views cost nothing and are left out


def test_options_of_the_view(run):
    base = ("trace", "bert-l2-h128", "-s", "16")
    _, plain, _ = run(*base)
    _, deep, _ = run(*base, "--level", "math")
    _, shallow, _ = run(*base, "--depth", "1")
    _, unfolded, _ = run(*base, "--unfold")
    _, everything, _ = run(*base, "--all")
    assert "aten.addmm" in deep
    assert "aten.addmm" not in plain
    assert "BertAttention" not in shallow
    assert "layer.1" in unfolded
    assert "×2" not in unfolded
    assert "transpose" in everything


def test_sorting_puts_the_largest_first(run):
    _, out, _ = run("trace", "bert-l2-h128", "--sort", "flops", "--depth", "1")
    names = [line.split()[0] for line in out.splitlines()[2:6]]
    assert names == ["BertModel", "encoder", "embeddings", "pooler"]


def test_json_is_one_document_and_nothing_else(run):
    code, out, err = run("trace", "bert-l2-h128", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == "irene.tree/1"
    assert document["spec"]["model"] == "bert-l2-h128"
    tree = ModelTree.from_json(out)
    assert tree.find("encoder.layer.0").count == 2


def test_csv_has_a_row_per_node(run):
    code, out, _ = run("trace", "bert-l2-h128", "--csv", "--unfold")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert rows[0]["kind"] == "model"
    query = next(r for r in rows if r["path"].endswith("layer.1.attention.self.query"))
    assert (query["op"], query["inputs"]) == ("Linear", "8x128x128")
    leaves = [row for row in rows if row["kind"] == "ml"]
    assert sum(int(r["flops"]) for r in leaves) == int(rows[0]["flops"])


def test_a_saved_tree_is_shown_again(run, tmp_path):
    file = tmp_path / "tree.json"
    code, out, err = run("trace", "bert-l2-h128", "--out", str(file))
    assert (code, out) == (0, "")
    assert f"wrote {file}" in err
    assert load(file).find("encoder.layer.0.intermediate.dense").children  # with math
    _, traced, _ = run("trace", "bert-l2-h128")
    code, shown, _ = run("show", str(file))
    assert (code, shown) == (0, traced)


def test_csv_to_a_file(run, tmp_path):
    file = tmp_path / "tree.csv"
    run("trace", "bert-l2-h128", "--out", str(file))
    assert file.read_text().startswith("path,kind,op,")


def test_notes_and_missing_formulas_are_printed(run):
    _, out, _ = run("trace", "qwen1.5-moe-a2.7b", "-s", "8", "--depth", "1")
    assert "note: experts:" in out


def test_models_are_listed_and_searched(run):
    code, out, _ = run("models")
    assert code == 0
    assert "bert-base-uncased" in out
    _, out, _ = run("models", "llama", "70b")
    assert "llama-3.1-70b" in out
    assert "bert" not in out
    _, out, _ = run("models", "--kind", "audio", "--json")
    found = json.loads(out)["models"]
    assert {model["kind"] for model in found} == {"audio"}
    assert any(model["name"] == "whisper-tiny" for model in found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "bert-base-uncasd"], "did you mean bert-base-uncased"),
        (["trace", "zzzzzz"], "give the path of a config.json"),
        (["trace", "gpt2", "-b", "0"], "--batch-size must be at least 1, got 0"),
        (["trace", "gpt2", "-s", "-5"], "--seq-len must be at least 1, got -5"),
        (["trace", "gpt2", "-b", "many"], "'many' is not a whole number"),
        (["trace", "gpt2", "-s", "1025"], "at most 1,024 positions"),
        (["trace", "roberta-base", "-s", "513"], "at most 512 positions"),
        (["trace", "gpt2", "-b", "1e9"], "the limit is 100,000,000"),
        (["trace", "gpt2", "--context", "5"], "needs a KV cache"),
        (["trace", "bert-l2-h128", "--phase", "decode"], "has no KV cache"),
        (["trace", "gpt2", "--model-class", "Nope"], "has no class 'Nope'"),
        (["trace", "gpt2", "--out", "/no/such/folder/x.json"], "no folder"),
        (["trace", "gpt2", "--depth", "-1"], "--depth must be at least 0"),
        (["trace", "gpt2", "--json", "--csv"], "not allowed with"),
        (["trace"], "required: MODEL"),
        (["trace", "deberta-base", "--attention", "sdpa"], "no 'sdpa' attention"),
        (["models", "zzzqqq"], "no model matches"),
        (["models", "--kind", "poem"], "no kind 'poem'"),
        (["show", "/no/such/file.json"], "cannot read"),
    ],
)
def test_bad_requests_get_one_clear_message(run, words, said):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    message = [line for line in err.splitlines() if not line.startswith("usage:")]
    assert len([line for line in message if line.strip()]) == 1


CONFIGS = {
    "not JSON": ("hello", "is not JSON"),
    "empty": ("", "is not JSON"),
    "not text": ("\udcff", "is not JSON"),
    "not an object": ("[1, 2]", "not an object"),
    "no type": ('{"hidden_size": 8}', "no model_type"),
    "unknown type": ('{"model_type": "berty"}', "did you mean bert"),
    "type of a wrong type": ('{"model_type": ["bert"]}', "no model_type"),
    "remote code": (
        '{"model_type": "mine", "auto_map": {"AutoModel": "m.M"}}',
        "asks to run code of its own",
    ),
    "classes of a wrong type": (
        '{"model_type": "bert", "architectures": 1e308}',
        "architectures is a list of names",
    ),
    "a module as dtype": (
        '{"model_type": "bert", "torch_dtype": "hub"}',
        "torch has no dtype 'hub'",
    ),
    "absurd width": (
        '{"model_type": "bert", "hidden_size": 1000000000000}',
        "hidden_size=1,000,000,000,000, the limit is",
    ),
    "absurd depth": (
        '{"model_type": "bert", "num_hidden_layers": 1000000}',
        "num_hidden_layers=1,000,000, the limit is 1,000",
    ),
    "absurd list": ('{"model_type": "swin", "depths": [100000]}', "the limit is"),
    "absurd experts": (
        '{"model_type": "mixtral", "num_local_experts": 10000000}',
        "experts",
    ),
    "nested too deeply": (
        '{"model_type": "bert", "x": ' + "[" * 900 + "]" * 900 + "}",
        "nested more than",
    ),
    "wrong kind of number": ('{"model_type": "bert", "hidden_size": "big"}', "int"),
    "negative": ('{"model_type": "bert", "hidden_size": -5}', "cannot build"),
    "impossible heads": (
        '{"model_type": "bert", "num_attention_heads": 7}',
        "not a multiple of the number of attention heads",
    ),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_bad_configs_get_one_clear_message(run, tmp_path, what):
    text, said = CONFIGS[what]
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out, err = run("trace", str(file))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_limits_can_be_lifted(run, tmp_path, monkeypatch):
    file = tmp_path / "config.json"
    fields = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4}
    file.write_text(json.dumps(fields | {"vocab_size": 30_000_000}))
    assert run("trace", str(file))[0] == 2
    code, out, _ = run("trace", str(file), "--no-limits", "--depth", "1")
    assert code == 0
    assert "1.92 G parameters" in out  # 30 million rows of 64
    monkeypatch.setenv("IRENE_NO_LIMITS", "1")
    assert run("trace", str(file), "--depth", "0")[0] == 0


def test_a_folder_with_a_config_will_do(run, tmp_path):
    fields = {"model_type": "bert", "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    code, out, _ = run("trace", str(tmp_path), "--depth", "0")
    assert code == 0
    assert "BertModel" in out


def test_the_class_of_a_config_is_built(run, tmp_path):
    fields = {
        "model_type": "bert",
        "num_hidden_layers": 1,
        "architectures": ["BertForMaskedLM"],
    }
    (tmp_path / "config.json").write_text(json.dumps(fields))
    _, out, _ = run("trace", str(tmp_path), "--depth", "0")
    assert "BertForMaskedLM" in out


def test_debug_shows_the_traceback():
    words = [sys.executable, "-m", "irene", "trace", "gpt2", "-b", "0"]
    short = subprocess.run(words, capture_output=True, text=True)
    long = subprocess.run([*words, "--debug"], capture_output=True, text=True)
    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr
    assert short.returncode == 2


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m irene models | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_name_is_no_picture(capsys):
    from irene.cli.output import screen

    screen().print("cannot import net:x: no such module")
    assert "net:x: no such" in capsys.readouterr().out
