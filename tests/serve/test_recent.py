from __future__ import annotations

import time

import pytest

from irene.serve.recent import Recent


def test_the_longest_unused_make_room() -> None:
    recent: Recent[str, str] = Recent(3)
    for name in "abc":
        recent.put(name, name.upper())
    assert recent.get("a") == "A"
    recent.put("d", "D")
    assert recent.get("b") is None
    assert [recent.get(name) for name in "acd"] == ["A", "C", "D"]


def test_values_count_by_their_size() -> None:
    recent: Recent[int, bytes] = Recent(10, len)
    recent.put(1, b"12345")
    recent.put(2, b"12345")
    recent.put(1, b"12")
    assert recent.size == 7
    recent.put(3, b"1234")
    assert recent.size == 6
    assert recent.get(2) is None


def test_one_value_does_not_push_out_all_others() -> None:
    recent: Recent[int, bytes] = Recent(10, len, largest=0.5)
    recent.put(1, b"12345")
    recent.put(2, b"123456")
    assert recent.get(1) is not None
    assert recent.get(2) is None


def test_what_is_old_is_not_kept_however_often_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter((0.0, 1.0, 3.0, 5.0, 5.1, 6.0, 7.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    recent: Recent[int, bytes] = Recent(10, len, most_s=5)
    recent.put(1, b"12345")
    found = [recent.get(1) for _ in range(4)]
    assert found == [b"12345", b"12345", b"12345", None]
    recent.put(1, b"123")
    assert (recent.get(1), recent.size) == (b"123", 3)
