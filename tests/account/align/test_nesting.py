from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from irene.account.align.nesting import nest, own_segments


def columns(*rows: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lane, start, end = np.array(rows, dtype=np.int64).T
    return lane, start, end


def test_the_innermost_event_around_is_the_parent() -> None:
    lane, start, end = columns((0, 0, 100), (0, 10, 50), (0, 20, 30), (0, 60, 90))
    assert nest(lane, start, end).parent.tolist() == [-1, 0, 1, 0]


def test_lanes_do_not_nest_in_each_other() -> None:
    lane, start, end = columns((0, 0, 100), (1, 10, 50))
    assert nest(lane, start, end).parent.tolist() == [-1, -1]


def test_an_event_that_begins_as_another_ends_is_not_inside_it() -> None:
    lane, start, end = columns((0, 0, 50), (0, 50, 60))
    assert nest(lane, start, end).parent.tolist() == [-1, -1]


def test_events_without_length_are_placed_and_contain_nothing() -> None:
    lane, start, end = columns((0, 0, 100), (0, 40, 40), (0, 40, 40), (0, 40, 60))
    assert nest(lane, start, end).parent.tolist() == [-1, 3, 3, 0]


def test_an_overlap_without_nesting_is_cut_and_told() -> None:
    lane, start, end = columns((0, 0, 10_000), (0, 4_000, 20_000), (1, 0, 5))
    found = nest(lane, start, end)
    assert found.parent.tolist() == [-1, -1, -1]
    assert found.end_ns.tolist() == [4_000, 20_000, 5]
    assert "1 events overlap" in found.notes[0]
    assert "6 µs" in found.notes[0]


def test_an_overlap_of_rounding_is_cut_silently() -> None:
    lane, start, end = columns((0, 0, 11_000), (0, 10_000, 20_000))
    found = nest(lane, start, end)
    assert found.end_ns.tolist() == [10_000, 20_000]
    assert found.notes == ()


def test_own_time_is_what_no_child_takes() -> None:
    lane, start, end = columns((0, 0, 100), (0, 10, 30), (0, 15, 20), (0, 60, 100))
    found = nest(lane, start, end)
    segments = own_segments(start, found.end_ns, found.parent)
    pieces: dict[int, list[tuple[int, int]]] = {}
    rows = (segments.owner, segments.start_ns, segments.end_ns)
    for owner, begin, stop in sorted(zip(*(r.tolist() for r in rows), strict=True)):
        pieces.setdefault(owner, []).append((begin, stop))
    assert pieces == {
        0: [(0, 10), (30, 60)],
        1: [(10, 15), (20, 30)],
        2: [(15, 20)],
        3: [(60, 100)],
    }


spans = st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40))


@given(st.lists(spans, min_size=1, max_size=40))
def test_own_times_cover_a_lane_once_whatever_overlaps(
    rows: list[tuple[int, int, int]],
) -> None:
    lane, start, length = np.array(rows, dtype=np.int64).T
    end = start + length
    found = nest(lane, start, end)
    inside = found.parent >= 0
    above = found.parent[inside]
    assert (start[inside] >= start[above]).all()
    assert (found.end_ns[inside] <= found.end_ns[above]).all()
    segments = own_segments(start, found.end_ns, found.parent)
    for number in set(lane.tolist()):
        busy = np.zeros(101, dtype=int)
        for begin, stop in zip(start[lane == number], end[lane == number], strict=True):
            busy[begin:stop] = 1
        covered = np.zeros(101, dtype=int)
        mine = lane[segments.owner] == number
        pairs = zip(segments.start_ns[mine], segments.end_ns[mine], strict=True)
        for begin, stop in pairs:
            covered[begin:stop] += 1
        assert covered.tolist() == busy.tolist()
