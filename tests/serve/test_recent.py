from __future__ import annotations

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
