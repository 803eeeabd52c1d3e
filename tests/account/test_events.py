from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from irene.account import Coded, EventsBuilder
from irene.errors import FormatError


def test_strings_are_numbered_as_they_appear() -> None:
    column = Coded.from_strings(["b", "a", "b"])
    assert column.codes.tolist() == [0, 1, 0]
    assert column.names == ("b", "a")
    assert column[2] == "b"


def test_events_of_one_thread_nest_and_those_of_others_do_not() -> None:
    builder = EventsBuilder()
    builder.add("outer", 0, 100, lane="1")
    builder.add("inner", 10, 20, lane="1")
    builder.add("elsewhere", 10, 20, lane="2")
    builder.add("kernel", 10, 20, lane="1", device="cuda:0")
    events = builder.build(("step",))
    assert events.parent.tolist() == [-1, 0, -1, -1]
    assert events.span_ns == (0, 100)
    assert events.steps == ("step",)


def test_weights_that_are_not_given_are_unknown() -> None:
    builder = EventsBuilder()
    builder.add("a", 0, 1, flops=5.0)
    builder.add("b", 1, 2)
    flops = builder.build().weights["flops"]
    assert flops[0] == 5.0
    assert np.isnan(flops[1])


def test_an_event_that_ends_before_it_begins_is_refused() -> None:
    builder = EventsBuilder()
    builder.add("fine", 0, 1)
    builder.add("wrong", 10, 4)
    with pytest.raises(FormatError, match=r"'wrong'.* 6 ns before"):
        builder.build()


def test_columns_of_different_length_are_refused() -> None:
    builder = EventsBuilder()
    builder.add("a", 0, 1)
    with pytest.raises(ValueError, match="step"):
        replace(builder.build(), step=np.zeros(3, np.int64))


def test_no_events_are_events_too() -> None:
    assert len(EventsBuilder().build()) == 0
