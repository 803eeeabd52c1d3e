"""What a monitored program used, drawn: power over time."""

from __future__ import annotations

import numpy as np

from irene.measure.windows.monitored import Monitored
from irene.show.picture.axis import AxisSpec
from irene.show.picture.picture import Picture
from irene.show.picture.timeline_chart import timeline

__all__ = ["monitor_picture"]


def monitor_picture(found: Monitored) -> Picture:
    """Power over time, one layer for each channel that counts.

    Args:
        found: What was monitored.
    """
    source = f" ({found.energy.source})" if found.energy else ""
    title = f"Power over time: {found.title}{source}"
    edges = found.edges_s if found.duration_s > 0 else np.zeros(0)
    layers = found.power_w if found.duration_s > 0 else {}
    return timeline(edges, layers, title, AxisSpec("power", "W"))
