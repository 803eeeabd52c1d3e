"""How the errors of an exam are distributed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from irene.predict.exams.crossvalidation import CrossValidation
from irene.show.picture import AxisSpec, Picture, distribution

__all__ = ["error_picture"]

LEVEL_NAMES = {"ml": "ML primitives", "module": "modules", "model": "whole models"}
MOST_DRAWN = 1000


def error_picture(result: CrossValidation) -> Picture:
    """Which part of the nodes is off by at most a value: the paper's Figure 3.

    Of many nodes, evenly spaced ones are drawn.

    Args:
        result: A cross-validation.
    """
    samples = {
        f"{LEVEL_NAMES[level]} ({len(errors):,})": _thinned(errors)
        for level, errors in result.node_errors.items()
        if len(errors)
    }
    title = f"Errors of {result.method} on {result.dataset}, held out: {result.split}"
    return distribution(samples, title, AxisSpec("error", "%", log=True), "nodes")


def _thinned(errors: npt.NDArray[np.float64]) -> list[float]:
    """At most so many of sorted values as a picture can show, the ends among them."""
    if len(errors) <= MOST_DRAWN:
        return [float(error) for error in errors]
    chosen = np.linspace(0, len(errors) - 1, MOST_DRAWN).round().astype(np.int64)
    return [float(error) for error in errors[chosen]]
