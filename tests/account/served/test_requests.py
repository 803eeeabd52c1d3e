"""Energy of single requests, against an engine of which all is known."""

import io
import json
import math
import statistics
import sys
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.account.served.proxy import counts_in, proxied
from irene.account.served.requests import (
    Request,
    RequestLines,
    Sharing,
    request_of,
)
from irene.account.served.token_energy import (
    EQUAL,
    TokenCosts,
    added_up,
    observed_costs,
)
from irene.errors import UsageError

from .made_server import MadeEngine, answering

TIMES = st.floats(0, 100)
REQUESTS = st.builds(
    lambda times, first, prompt, cached, output: Request(
        "r", times[0], times[1] if first else None, times[2], prompt, cached, output
    ),
    st.tuples(TIMES, TIMES, TIMES).map(sorted), st.booleans(),
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6),
)  # fmt: skip
COSTS = TokenCosts(0.8, 0.02, 0.3, "predicted", 250.0)


@given(
    st.lists(REQUESTS, max_size=12),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    st.sampled_from([COSTS, EQUAL, replace(COSTS, lasting=0.2)]),
    st.floats(0, 60),
)
def test_no_joule_is_lost(requests, energies, costs, wait_s):
    sharing, found = Sharing(wait_s), []
    for second, energy_j in enumerate(energies):
        for request in requests[second :: len(energies)]:
            sharing.tell(request)
        sharing.used(5.0 * second, 5.0 * (second + 1), energy_j)
        found += sharing.settle(5.0 * (second + 1), costs)
    found += sharing.settle(math.inf, costs)
    assert sorted(map(repr, requests)) == sorted(repr(each.request) for each in found)
    shared_j = math.fsum(each.energy_j for each in found)
    assert shared_j + sharing.idle_j == pytest.approx(
        math.fsum(energies), rel=1e-9, abs=1e-9
    )
    assert all(0 <= each.metered <= 1 for each in found)
    assert sharing.waiting == 0


@pytest.mark.parametrize(
    ("noise", "median", "nine_of_ten"), [(0.0, 0.001, 0.003), (0.02, 0.012, 0.03)]
)
def test_requests_of_known_engines_are_seen_within_three_percent(
    noise, median, nine_of_ten
):
    errors = sorted(error for seed in range(3) for error in _errors(seed, noise))
    assert len(errors) > 1500
    assert statistics.median(errors) < median
    assert errors[len(errors) * 9 // 10] < nine_of_ten


def _errors(seed, noise):
    """By how much single requests are off, a minute of which was looked at."""
    engine, sharing, rows = MadeEngine(seed), Sharing(60.0), []
    for _ in range(60):
        before = engine.time_s
        rows += engine.intervals(1, 50, noise)
        sharing.used(before, engine.time_s, rows[-1].energy_j)
    for made in engine.ended:
        sharing.tell(request_of(made.told(), 0.0))
    found = sharing.settle(math.inf, observed_costs(rows))
    whole_j = math.fsum(one.energy_j for one in found)
    assert whole_j == pytest.approx(sum(m.energy_j for m in engine.ended), rel=0.03)
    assert whole_j + sharing.idle_j == pytest.approx(added_up(rows).energy_j, rel=1e-9)
    last_s = engine.time_s - 120 * engine.STEP_S  # later ones share with untold ones
    return [
        abs(one.energy_j / made.energy_j - 1)
        for one, made in zip(found, engine.ended, strict=True)
        if made.end_s < last_s
    ]


def test_what_lasts_is_of_the_work_and_what_does_not_is_levelled():
    requests = [Request(str(n), n, n, n + 1, 0, 0, 10) for n in range(5)]
    for lasting, found in ((1.0, [10, 20, 10, 10, 10]), (0.5, [10, 15, 12.5, 11.25])):
        sharing = Sharing(0.0)
        for request in requests:
            sharing.tell(request)
            energy_j = 20.0 if request.name == "1" else 10.0
            sharing.used(request.begin_s, request.end_s, energy_j)
        costs = TokenCosts(1.0, 1.0, 1.0, "observed", 0.0, lasting)
        shares = [one.energy_j for one in sharing.settle(math.inf, costs)]
        assert shares[: len(found)] == pytest.approx(found)
        assert math.fsum(shares) + sharing.idle_j == pytest.approx(60.0)


def test_a_request_that_is_told_too_late_has_what_is_left():
    sharing = Sharing(2.0)
    early, late = (Request(name, 0.0, None, 4.0, 10, 0, 10) for name in ("a", "b"))
    sharing.used(0.0, 2.0, 8.0)
    sharing.used(2.0, 4.0, 8.0)
    sharing.tell(early)
    assert sharing.settle(4.0, EQUAL) == []
    sharing.tell(late)
    first, second = sharing.settle(6.0, EQUAL)
    assert (first.energy_j, first.metered) == (12.0, 1.0)
    assert (second.energy_j, second.metered) == (4.0, 0.5)


def test_prompts_are_read_first_where_that_is_known():
    known = Request("", 0.0, 1.0, 3.0, 100, 50, 20)
    assert known.between(0.0, 1.0) == known.__class__("", 0.0, 1.0, 3.0, 100, 50, 0)
    assert known.between(1.0, 2.0).output_tokens == 10
    unknown = Request("", 0.0, None, 2.0, 100, 0, 20)
    assert unknown.between(0.0, 1.0).prompt_tokens == 50
    assert unknown.between(0.0, 1.0).output_tokens == 10


OLLAMA = {
    "model": "llama3.2", "created_at": "2024-07-22T20:33:28.123648Z", "done": True,
    "total_duration": 5_589_157_167, "load_duration": 3_013_701_500,
    "prompt_eval_count": 46, "prompt_eval_duration": 1_160_282_000,
    "eval_count": 113, "eval_duration": 1_325_948_000,
}  # fmt: skip
LLAMA_CPP = {
    "timings": {
        "cache_n": 236, "prompt_n": 1, "prompt_ms": 30.0, "predicted_n": 35,
        "predicted_ms": 661.0,
    }
}  # fmt: skip
OPENAI = {
    "id": "chatcmpl-7", "end": 20.0, "start": 10.0,
    "usage": {
        "prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37,
        "prompt_tokens_details": {"cached_tokens": 16},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (OLLAMA, ("llama3.2", 1721680405.637418, 1721680406.7977, 1721680408.123648,
                  46, 0, 113)),
        (LLAMA_CPP, ("", 99.309, 99.339, 100.0, 1, 236, 35)),
        (OPENAI, ("chatcmpl-7", 10.0, None, 20.0, 14, 16, 7)),
        ({"output_tokens": 5, "prompt_tokens": 3, "start": 1, "end": 2,
          "first_token": 1.5}, ("", 1, 1.5, 2, 3, 0, 5)),
        ({"usage": {"prompt_tokens": 9}}, ("", 100.0, None, 100.0, 9, 0, 0)),
    ],
    ids=["ollama", "llama.cpp", "openai", "plain", "embeddings"],
)  # fmt: skip
def test_answers_of_servers_are_read(told, found):
    request = request_of(told, 100.0)
    assert request.name == found[0]
    values = [getattr(request, name) for name in Request.__slots__[1:]]
    assert values == pytest.approx(list(found[1:]), abs=1e-6)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "no JSON object"),
        ("[1]", "no JSON object"),
        ('{"id": "a"}', "none of eval_count"),
        ('{"eval_count": null}', "cannot be read"),
        ('{"timings": {"prompt_n": 1}}', "cannot be read"),
        ('{"output_tokens": -1}', "impossible"),
        ('{"output_tokens": 1, "start": 5, "end": 4}', "impossible"),
        ('{"output_tokens": NaN}', "impossible"),
        ('{"output_tokens": 1, "end": "soon"}', "cannot be read"),
    ],
)
def test_lines_that_are_no_requests_are_told_and_left_out(tmp_path, line, says):
    path = tmp_path / "requests.jsonl"
    path.write_text(f"\n{line}\n{json.dumps(OPENAI)}\n")
    lines = RequestLines(str(path))
    assert [request.name for request in lines.read()] == ["chatcmpl-7"]
    (problem,) = lines.problems()
    assert f"line 2 of {path} tells no tokens" in problem
    assert says in problem
    assert lines.problems() == []


def test_a_file_grows_line_by_line(tmp_path):
    path, text = tmp_path / "requests.jsonl", json.dumps(OPENAI) + "\n"
    with pytest.raises(UsageError, match=r"no file .*requests\.jsonl"):
        RequestLines(str(path))
    path.touch()
    lines = RequestLines(str(path))
    with path.open("a") as out:
        for part, number in ((text[:20], 0), (text[20:], 1), (2 * text, 2)):
            out.write(part)
            out.flush()
            assert len(lines.read()) == number
    path.write_text(text)  # as logs are begun anew that have become too long
    assert len(lines.read()) == 1
    assert lines.problems() == []
    path.unlink()
    assert lines.read() == []
    assert "cannot read" in lines.problems()[0]


def test_streams_tell_their_counts_at_the_end():
    parts = [{"model": "llama3.2", "response": "a", "done": False}, OLLAMA]
    lines = "\n".join(map(json.dumps, parts)).encode()
    assert request_of(counts_in(lines), 0.0) == request_of(OLLAMA, 0.0)
    last = {"choices": [], "usage": OPENAI["usage"]}
    events = [{"id": "chatcmpl-7", "choices": [{}], "usage": None}, last, "[DONE]"]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    found = request_of(counts_in(text) | {"start": 10.0, "end": 20.0}, 0.0)
    assert found == request_of(OPENAI, 0.0)
    assert request_of(counts_in(json.dumps(OLLAMA).encode()), 0.0).output_tokens == 113


def test_standard_input_is_read_as_it_comes(monkeypatch):
    text = (json.dumps(OPENAI) + "\n").encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(2 * text)))
    lines, found = RequestLines("-"), []
    while len(found) < 2:
        found += lines.read()
    assert {request.name for request in found} == {"chatcmpl-7"}


def test_an_answer_without_a_body_has_none_behind_the_door():
    """What comes after it on the same connection is the next answer."""

    with (
        answering({"/": "ok"}) as url,
        proxied(url, 0) as (_, port),
        closing(HTTPConnection("127.0.0.1", port)) as door,
    ):
        for method, status, body in (("OPTIONS", 204, b""), ("GET", 200, b"ok")):
            door.request(method, "/")
            answer = door.getresponse()
            assert (answer.status, answer.read()) == (status, body)
            assert bool(answer.getheader("Transfer-Encoding")) == bool(body)
