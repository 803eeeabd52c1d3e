"""The picture of a monitored program."""

from __future__ import annotations

import pytest

from irene.show.picture.answer_pictures import monitor_picture
from tests.measure.test_monitoring import recorded


def test_it_shows_the_energy_that_was_measured():
    found = recorded([10, 20, 30])
    picture = monitor_picture(found)
    area = sum((row[1] - row[0]) * row[2] for row in picture.rows)
    assert area == pytest.approx(found.energy.joules)
    assert "Power over time: prog (measured)" in picture.svg()
