from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json

import httpx
import pytest

from irene.cli import main
from irene.serve.http.problems import MEDIA_TYPE
from irene.tree import ModelTree

SMALL = {"model": "bert-l2-h128", "batch_size": 2, "seq_len": 16}


def command(*words: str) -> dict[str, object]:
    """What a command prints with --json."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(printed.getvalue())
    return found


def test_the_answer_is_the_document_of_the_command(api: httpx.Client) -> None:
    answer = api.get("/energy", params=SMALL)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    expected = command("predict", "bert-l2-h128", "-b", "2", "-s", "16")
    assert answer.json() == expected


def test_a_tree_has_costs_alone(api: httpx.Client) -> None:
    document = api.get("/tree", params=SMALL).json()
    assert document["energy_j"] is None
    assert document["tree"]["flops"] > 0
    assert ModelTree.from_json(json.dumps(document)).spec is not None


def test_layers_are_folded_unless_asked_otherwise(api: httpx.Client) -> None:
    folded = api.get("/energy", params=SMALL)
    unfolded = api.get("/energy", params={**SMALL, "fold": "false"})
    trees = [ModelTree.from_json(each.content) for each in (folded, unfolded)]
    assert len(trees[0]) < len(trees[1])
    assert trees[0].unfold().node_count == trees[1].node_count


def test_csv_has_a_row_per_node(api: httpx.Client) -> None:
    by_query = api.get("/energy", params={**SMALL, "format": "csv"})
    by_header = api.get("/energy", params=SMALL, headers={"accept": "text/csv"})
    assert by_query.headers["content-type"].startswith("text/csv")
    assert by_query.content == by_header.content
    rows = list(csv.DictReader(io.StringIO(by_query.text)))
    tree = ModelTree.from_json(api.get("/energy", params=SMALL).content)
    assert [row["path"] for row in rows] == tree.paths
    assert float(rows[0]["energy_j"]) == tree.root.energy.joules  # type: ignore[union-attr]


def test_two_preferences_of_one_are_nobody_elses(api: httpx.Client) -> None:
    """What a request is answered with, and what it is remembered by, go together."""
    both = [("accept", "text/csv"), ("accept", "application/json")]
    asked = {**SMALL, "seq_len": 19, "phase": "forward"}
    assert api.get("/energy", params=asked, headers=both).status_code == 200
    for size in (2, 3):
        found = api.get("/energy", params={**asked, "batch_size": size})
        assert found.headers["content-type"] == "application/json"


def test_what_has_no_table_is_json_whatever_one_prefers(api: httpx.Client) -> None:
    asked = {"model": "bert-l2-h128", "tokens": 1000, "seq_len": 16}
    found = api.get("/plan-training", params=asked, headers={"accept": "text/csv"})
    assert found.status_code == 200
    assert found.json()["schema"] == "irene.training_plan/1"


def test_a_table_that_is_no_csv_is_refused(api: httpx.Client) -> None:
    found = api.post("/trade-off", content=b"model,accuracy\rbert-base-uncased,9")
    assert found.status_code == 400
    assert "cannot be read" in found.json()["detail"]


def test_an_alias_and_the_name_have_one_answer(api: httpx.Client) -> None:
    one = api.get("/energy", params={"model": "bert-base-uncased", "seq_len": 16})
    other = api.get(
        "/energy", params={"model": "google-bert/bert-base-uncased", "seq_len": 16}
    )
    assert one.headers["etag"] == other.headers["etag"]


def test_what_is_written_behind_a_name_counts(api: httpx.Client) -> None:
    short = api.get("/energy", params={"model": "bert-l2-h128@b2s16"})
    assert short.content == api.get("/energy", params=SMALL).content
    other = api.get("/energy", params={**SMALL, "model": "bert-l2-h128@on=h100"})
    assert other.content == api.get("/energy", params={**SMALL, "on": "h100"}).content
    assert other.content != short.content


def test_a_client_that_has_the_answer_gets_nothing(api: httpx.Client) -> None:
    first = api.get("/energy", params=SMALL)
    key = first.headers["etag"].strip('"')
    assert first.headers["content-location"] == f"/api/v1/answers/{key}"
    for path, params in (("/energy", SMALL), (f"/answers/{key}", {})):
        again = api.get(path, params=params, headers={"if-none-match": f'"{key}"'})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["etag"] == f'"{key}"'
        other = api.get(path, params=params, headers={"if-none-match": '"other"'})
        assert other.status_code == 200


def test_a_permalink_gives_the_same_bytes(api: httpx.Client) -> None:
    first = api.get("/energy", params=SMALL)
    path = first.headers["content-location"].removeprefix("/api/v1")
    link = api.get(path)
    assert link.content == first.content
    assert "immutable" in link.headers["cache-control"]


def test_bytes_are_packed_only_for_those_who_can_unpack(api: httpx.Client) -> None:
    for _ in range(2):  # from the app, then from memory
        with api.stream(
            "GET", "/energy", params=SMALL, headers={"accept-encoding": "gzip"}
        ) as packed:
            raw = b"".join(packed.iter_raw())
        assert packed.headers["content-encoding"] == "gzip"
        plain = api.get(
            "/energy", params=SMALL, headers={"accept-encoding": "identity"}
        )
        assert "content-encoding" not in plain.headers
        assert gzip.decompress(raw) == plain.content


@pytest.mark.parametrize(
    ("params", "status", "told"),
    [
        ({"model": "no-such-model"}, 404, "/api/v1/models"),
        ({"model": "bert-base-uncase"}, 404, "did you mean bert-base-uncased"),
        ({"model": "<script>alert(1)</script>"}, 404, "unknown model"),
        ({"model": "../../../etc/passwd"}, 404, "unknown model"),
        ({"model": "/etc/passwd"}, 404, "unknown model"),
        ({"model": "some/model"}, 404, "unknown model"),
        ({"model": "upload:" + "0" * 32}, 404, "upload:"),
        ({"model": "answer:../x"}, 404, "answer:"),
        ({"model": "gpt2", "hardware": "/etc/passwd"}, 404, "unknown hardware"),
        ({"model": "gpt2", "hardware": "x.json"}, 404, "unknown hardware"),
        ({"model": "gpt2", "batch_size": 0}, 422, "batch_size"),
        ({"model": "gpt2", "batch_size": "9" * 5000}, 422, "batch_size"),
        ({"model": "gpt2", "seq_len": "NaN"}, 422, "seq_len"),
        ({"model": "gpt2", "dtype": "fp7"}, 422, "dtype"),
        ({"model": "gpt2", "wrong": "1"}, 422, "wrong"),
        ({"model": "gpt2", "context_len": 5}, 400, "KV cache"),
        ({"model": "gpt2", "seq_len": 1_000_000}, 400, "1,000,000"),
        ({"model": "gpt2", "batch_size": 10**8, "seq_len": 10**8}, 400, "limit"),
        ({"model": "gpt2", "model_class": "os"}, 400, "os"),
        ({"model": "gpt2", "model_class": "../x"}, 422, "model_class"),
        ({}, 422, "model"),
    ],
)
def test_a_wrong_question_is_answered_with_what_to_do(
    api: httpx.Client, params: dict[str, str], status: int, told: str
) -> None:
    answer = api.get("/energy", params=params)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == status
    assert told in problem["detail"]
    assert "Traceback" not in answer.text


def test_no_such_page_and_method_are_problems_too(api: httpx.Client) -> None:
    for answer, status in (
        (api.get("/nothing"), 404),
        (api.put("/energy"), 405),
        (api.get("/answers/" + "0" * 32), 404),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.json()["status"] == status


def test_serving_runs_are_answered_for_gpus(api: httpx.Client) -> None:
    known = [
        each["hardware"]["name"] for each in api.get("/hardware").json()["hardware"]
    ]
    if "h100" not in known:
        pytest.skip("no h100 in this version")
    answer = api.get(
        "/energy",
        params={
            "model": "llama-3.2-1b", "hardware": "h100", "phase": "generate",
            "dtype": "bf16", "prompt_len": 256, "output_len": 64,
        },
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["output_len"] == 64
