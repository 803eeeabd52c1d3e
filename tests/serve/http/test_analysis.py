from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import pytest

from .test_energy import command

MODEL = "bert-l2-h128"
SIZE = {"batch_size": 2, "seq_len": 16}


@pytest.mark.parametrize(
    ("path", "params", "words"),
    [
        ("/models", {"search": "qwen3 8b"}, ["models", "qwen3", "8b"]),
        ("/hardware", {}, ["hardware"]),
        (
            "/cost",
            {"model": MODEL, "region": "DE", "per_day": 1e5, "price": 0.2, **SIZE},
            ["cost", MODEL, "--region", "DE", "--per-day", "1e5", "--price", "0.2",
             "-b2", "-s16"],
        ),
    ],
)  # fmt: skip
def test_documents_are_those_of_the_commands(
    api: httpx.Client, path: str, params: dict[str, Any], words: list[str]
) -> None:
    answer = api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    assert answer.json() == command(*words)


def test_a_partial_leaderboard_says_what_is_missing(api: httpx.Client) -> None:
    params: dict[str, Any] = {"search": "bert-l2", "seq_len": 24}
    first = api.get("/leaderboard", params={**params, "partial": "true"}).json()
    assert first["pending"] + len(first["models"]) >= 3
    answer = api.get("/leaderboard", params=params)
    assert answer.headers["content-location"]
    whole = answer.json()
    assert whole["run"]["batch_size"] == 8
    again = api.get("/leaderboard", params={**params, "partial": "true"}).json()
    assert "pending" not in again
    assert again["models"] == whole["models"]


@pytest.mark.parametrize(
    ("path", "params", "columns"),
    [
        ("/leaderboard", {"search": "bert-l2", "seq_len": 24}, {"place", "model"}),
        ("/compare", {"subject": [MODEL, f"{MODEL}@b4"]}, {"base", "other", "by"}),
        ("/what-if", {"model": MODEL, "seq_len": "8:16:8"}, {"seq_len", "energy_j"}),
    ],
)
def test_tables_come_as_csv(
    api: httpx.Client, path: str, params: dict[str, Any], columns: set[str]
) -> None:
    answer = api.get(path, params={**params, "format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv"), answer.text
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) >= 2
    assert columns <= set(rows[0])


TABLE = "model,accuracy,energy_j\nbert-l2-h128,80,\nbert-l2-h256,85,\nmine,99,5.0\n"


def test_an_own_table_of_accuracies_is_ranked(api: httpx.Client) -> None:
    answer = api.post(
        "/trade-off",
        params={"at_least": 82, **SIZE},
        content=TABLE,
        headers={"content-type": "text/csv"},
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["schema"] == "irene.trade_off/1"
    assert found["chosen"] == "bert-l2-h256"
    assert [each["model"] for each in found["candidates"]][-1] == "mine"
    rows = api.post("/trade-off", params={"format": "csv", **SIZE}, content=TABLE)
    assert len(rows.text.splitlines()) == 4


@pytest.mark.parametrize(
    ("table", "status"),
    [
        ("", 422),
        ("nothing", 400),
        ("model,accuracy\nno-such,5\n", 400),
        ("model,accuracy\n/etc/passwd,5\n", 400),
        ("model,accuracy\ngpt2,nan\n", 400),
        ('model,accuracy\n"gpt2@on=/etc/passwd",5\n', 404),
        ("model,accuracy\n" + "".join(f"gpt2@b{n},5\n" for n in range(1, 300)), 400),
        ("model,accuracy\n\x00,1\n", 400),
    ],
)
def test_a_wrong_table_is_told(api: httpx.Client, table: str, status: int) -> None:
    answer = api.post("/trade-off", content=table, headers={"content-type": "text/csv"})
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("name", ["no-such", "/etc/passwd", "some/model"])
def test_one_row_that_is_not_known_is_left_out(api: httpx.Client, name: str) -> None:
    answer = api.post("/trade-off", params=SIZE, content=f"{TABLE}{name},90,\n")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["candidates"]) == 3
    assert [each["model"] for each in found["left_out"]] == [name]
    assert "unknown model" in found["left_out"][0]["problem"]


@pytest.mark.parametrize("name", ["no-such", "/etc/passwd", "bert-l2-h128@s9999"])
def test_one_model_that_fails_is_left_out_of_a_comparison(
    api: httpx.Client, name: str
) -> None:
    params = {"subject": [MODEL, f"{MODEL}@b2", name], "on": "pc1"}
    answer = api.get("/compare", params=params)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["comparisons"]) == 1
    assert [each["model"] for each in found["left_out"]] == [name]


def test_the_right_name_of_a_parameter_is_told(api: httpx.Client) -> None:
    answer = api.get("/energy", params={"model": MODEL, "precision": "fp32"})
    assert answer.status_code == 422
    assert "precision: there is no such parameter; did you mean dtype?" in answer.text


def test_known_answers_are_compared_by_their_keys(api: httpx.Client) -> None:
    keys = [
        api.get("/energy", params={"model": MODEL, "batch_size": size}).headers["etag"]
        for size in (1, 4)
    ]
    subjects = [f"answer:{key.strip(chr(34))}" for key in keys]
    answer = api.get("/compare", params={"subject": subjects})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["comparisons"]
    assert found["difference_j"] > 0


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("/compare", {"subject": ["gpt2"]}, 422),
        ("/compare", {"subject": ["gpt2", "gpt2@x9"]}, 400),
        ("/compare", {"subject": ["gpt2", "gpt2@b" + "9" * 200]}, 400),
        ("/compare", {"subject": ["gpt2", "gpt2@on=/etc/passwd"]}, 404),
        ("/compare", {"subject": ["gpt2", "../gpt2"]}, 404),
        ("/what-if", {"model": "gpt2"}, 400),
        ("/what-if", {"model": "gpt2", "batch_size": "1:100000"}, 400),
        ("/what-if", {"model": "gpt2", "batch_size": "1:900", "seq_len": "1:9"}, 400),
        ("/what-if", {"model": "gpt2", "batch_size": "NaN,1"}, 400),
        ("/what-if", {"model": "gpt2", "set": "n_layer=NaN"}, 400),
        ("/what-if", {"model": "gpt2", "set": "n_layer=1e999"}, 400),
        ("/what-if", {"model": "gpt2", "set": "n_layer=" + "[" * 480}, 400),
        ("/what-if", {"model": "gpt2", "set": "no_such_field=1"}, 400),
        ("/what-if", {"model": "gpt2", "set": "model=/etc/passwd"}, 400),
        ("/cost", {"model": "gpt2", "region": "XX"}, 400),
        ("/cost", {"model": "gpt2", "pue": 0.5}, 422),
        ("/cost", {"model": "gpt2", "queries": "inf"}, 422),
        ("/cost", {"model": "gpt2", "queries": "nan"}, 422),
        ("/leaderboard", {"family": "none"}, 400),
        ("/leaderboard", {"min_params": 1e14}, 400),
        ("/trade-off", {"budget_j": "nan"}, 422),
        ("/models", {"limit": 0}, 422),
        ("/provenance", {"hardware": "nope"}, 404),
    ],
)
def test_wrong_questions_are_told(
    api: httpx.Client, path: str, params: dict[str, Any], status: int
) -> None:
    answer = api.get(path, params=params)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


def test_provenance_tells_method_errors_and_versions(api: httpx.Client) -> None:
    found = api.get("/provenance", params={"hardware": "pc1"}).json()
    assert found["method"] == "specs"
    assert found["provenance"]["held_out_errors_percent"]["model"]["model"] > 0
    assert found["versions"]["irene"]


def test_regions_have_a_source(api: httpx.Client) -> None:
    regions = api.get("/regions").json()["regions"]
    assert {"WORLD", "DE"} <= {each["code"] for each in regions}
    assert all(each["source"] and each["year"] for each in regions)
