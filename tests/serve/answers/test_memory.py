from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from irene.predict.machines.chosen import use_machine
from irene.serve.answers.memory import ETAG, LINK, MOST_S, Memory, make_ready


def test_an_answer_is_packed_where_that_is_smaller() -> None:
    large = make_ready("a", b"x" * 5_000, "application/json")
    assert large.packed is not None
    assert gzip.decompress(large.packed) == b"x" * 5_000
    assert dict(large.packed_headers)[b"content-encoding"] == b"gzip"
    assert make_ready("b", b"{}", "application/json").packed is None


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b'"key"', 304),
        (b'"other", W/"key"', 304),
        (b" *", 304),
        (b"", 200),
        (b'"key2"', 200),
        (b"key", 200),
    ],
)
def test_what_a_client_has_is_not_sent_again(header: bytes, status: int) -> None:
    ready = make_ready("key", b"{}", "application/json")
    found, headers, body = ready.response({b"if-none-match": header})
    assert found == status
    assert body == (b"" if status == 304 else b"{}")
    assert (ETAG, b'"key"') in headers


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        (b"br, gzip", True), (b"GZIP;q=0.5", True), (b"br;q=1, *;q=0.1", True),
        (b"br", False), (b"", False), (b"gzip;q=0", False),
        (b"gzip; q=0.000, *", False), (b"x-gzip-not", False),
    ],
)  # fmt: skip
def test_only_who_can_unpack_gets_it_packed(accepted: bytes, takes: bool) -> None:
    ready = make_ready("key", b"x" * 5_000, "application/json")
    body = ready.response({b"accept-encoding": accepted})[2]
    assert body == (ready.packed if takes else ready.body)


def test_an_answer_is_looked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, began = Memory(1_000_000), time.monotonic()
    memory.answers.put("key", make_ready("key", b"{}", "application/json"))
    memory.remember("/energy", b"", b"", "key")
    assert memory.request("/energy", b"", b"") is not None
    monkeypatch.setattr(time, "monotonic", lambda: began + 2 * MOST_S)
    assert memory.request("/energy", b"", b"") is None


def test_an_answer_may_promise_less() -> None:
    ready = make_ready("key", b"{}", "application/json").without(LINK, ETAG)
    for headers in (ready.headers, ready.packed_headers, ready.not_modified):
        assert not {LINK, ETAG} & set(dict(headers))


def test_one_answer_does_not_push_out_all_others() -> None:
    memory = Memory(10_000)
    small = make_ready("small", b"1" * 300, "text/plain")
    large = make_ready("large", bytes(range(256)) * 40, "text/plain")
    for ready in (small, large):
        memory.answers.put(ready.key, ready)
    assert memory.answers.get("small") is not None
    assert memory.answers.get("large") is None


def test_a_request_is_remembered_as_it_came() -> None:
    memory = Memory(10_000)
    memory.answers.put("key", make_ready("key", b"{}", "application/json"))
    memory.remember("/tree", b"model=a", b"*/*", "key")
    found = memory.request("/tree", b"model=a", b"*/*")
    assert found is not None
    assert found.key == "key"
    assert memory.request("/tree", b"model=a", b"text/csv") is None
    memory.remember("/tree", b"model=b", b"*/*", "forgotten")
    assert memory.request("/tree", b"model=b", b"*/*") is None


def test_a_request_is_asked_anew_once_a_machine_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRENE_HOME", str(tmp_path))
    memory = Memory(10_000)
    memory.answers.put("key", make_ready("key", b"{}", "application/json"))
    memory.remember("/energy", b"model=a", b"*/*", "key")
    use_machine("h100")
    assert memory.request("/energy", b"model=a", b"*/*") is None
