from __future__ import annotations

import gzip

from irene.serve.answers.memory import Memory, make_ready


def test_an_answer_is_packed_where_that_is_smaller() -> None:
    large = make_ready("a", b"x" * 5_000, "application/json")
    assert large.packed is not None
    assert gzip.decompress(large.packed) == b"x" * 5_000
    assert dict(large.packed_headers)[b"content-encoding"] == b"gzip"
    assert make_ready("b", b"{}", "application/json").packed is None


def test_the_longest_unused_answers_are_forgotten() -> None:
    memory = Memory(4_000)
    for name in "abcd":
        memory.put(make_ready(name, b"0" * 450 + name.encode() * 40, "text/plain"))
    assert memory.get("a") is not None
    for name in "efghij":
        memory.put(make_ready(name, b"0" * 450 + name.encode() * 40, "text/plain"))
    assert memory.bytes <= 4_000
    assert memory.get("b") is None
    assert memory.get("j") is not None


def test_one_answer_does_not_push_out_all_others() -> None:
    memory = Memory(10_000)
    memory.put(make_ready("small", b"1" * 300, "text/plain"))
    memory.put(make_ready("large", bytes(range(256)) * 40, "text/plain"))
    assert memory.get("small") is not None
    assert memory.get("large") is None


def test_a_request_is_remembered_as_it_came() -> None:
    memory = Memory(10_000)
    memory.put(make_ready("key", b"{}", "application/json"))
    memory.remember("/tree", b"model=a", b"*/*", "key")
    found = memory.request("/tree", b"model=a", b"*/*")
    assert found is not None
    assert found.key == "key"
    assert memory.request("/tree", b"model=a", b"text/csv") is None
    memory.drop("key")
    assert memory.request("/tree", b"model=a", b"*/*") is None
    assert memory.bytes == 0
