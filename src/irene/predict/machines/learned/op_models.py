"""Time of the ops of one kind: non-negative rates, and a smooth correction by shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from irene.arrays import Floats
from irene.predict.machines.learned.timed_op import TimedOp
from irene.predict.machines.specs.regression import Residual, relative_nnls
from irene.saved import Saved

SOFT = 0.1
ROUNDS = 8
MOST_POINTS = 2000
CHOOSING_POINTS = 700
"""Measurements that a correction passes through, and those that choose its form."""
LENGTHS = (0.5, 0.8, 1.3, 2.0, 3.5)
AMPLITUDES = (0.1, 0.2, 0.4, 0.8)
NOISES = (0.03, 0.06, 0.12, 0.25)
LEAST_SPREAD = 0.7
LAYOUT_SPREAD = 0.7
COLD_SPREAD = 0.35
FEWEST = 6
"""Measurements that a correction by shape needs."""
LARGE_MIB, HELD = 16.0, 0.2
"""Of this size an op is taken for any other, if nothing measured says otherwise."""


@dataclass(frozen=True, slots=True)
class OpTimes(Saved):
    """Time of the ops of one kind.

    Attributes:
        rates: s per call, per GFLOP, per MiB moved, per MiB of a cold weight.
        residual: Correction by shape.
        low: Smallest logarithms of sizes that were measured.
        high: Largest.
    """

    rates: Floats
    residual: Residual | None
    low: Floats
    high: Floats

    def seconds(self, ops: Sequence[TimedOp], cold: Floats) -> Floats:
        """Time of ops inside a model, s."""
        base: Floats = _work(ops, cold) @ self.rates
        if self.residual is None:
            return base
        places = _coordinates(ops, cold)
        within = places.copy()
        sizes = slice(0, len(self.low))
        within[:, sizes] = np.clip(places[:, sizes], self.low - 0.7, self.high + 0.7)
        return base * np.exp(self.residual.predict(within))

    def is_beyond(self, ops: Sequence[TimedOp]) -> Floats:
        """How far sizes are outside of what was measured, on their logarithm."""
        sizes = np.log(np.array([op.sizes for op in ops], dtype=float))
        out: Floats = np.maximum(self.low - sizes, sizes - self.high).max(axis=1)
        return np.maximum(out, 0.0)


def _work(ops: Sequence[TimedOp], cold: Floats) -> Floats:
    rows = [[1.0, op.gflop, op.mib, op.weight_mib] for op in ops]
    work = np.array(rows, dtype=float)
    work[:, 3] *= cold
    return work


def _coordinates(ops: Sequence[TimedOp], cold: Floats) -> Floats:
    sizes = np.log(np.array([op.sizes for op in ops], dtype=float))
    layout = np.array([[op.layout] for op in ops])
    return np.hstack([sizes, layout, cold[:, None]])


def fit_op_times(
    ops: Sequence[TimedOp],
    cold: Floats,
    seconds: Floats,
    noise: Floats,
    others: OpTimes | None = None,
) -> OpTimes:
    """Learn the ops of one kind.

    One that was measured small alone says nothing of its time per byte: large, it is
    taken for one of `others`, ops of any kind. Noise is 1 where nothing disturbed.
    """
    work, weight = _work(ops, cold), 1.0 / noise
    rates = np.zeros(work.shape[1])
    held = np.zeros((0, work.shape[1]))
    if others is not None:
        large = np.array([1.0, 0.0, LARGE_MIB, 0.0])
        held = (HELD / (large @ others.rates) * large)[None, :]
    for _ in range(ROUNDS):
        rates = relative_nnls(
            np.vstack([work * (weight / seconds)[:, None], held]),
            np.append(weight, np.full(len(held), HELD)),
        )
        error = np.abs(work @ rates / seconds - 1.0)
        weight = 1.0 / noise / np.sqrt(np.maximum(error, SOFT))
    base = np.maximum(work @ rates, 1e-9)
    places = _coordinates(ops, cold)
    sizes = places[:, :-2]
    low, high = sizes.min(axis=0), sizes.max(axis=0)
    residual = None
    if len(ops) >= FEWEST:
        residual = _correction(places, np.log(seconds / base), noise)
    return OpTimes(rates, residual, low, high)


def _correction(places: Floats, logs: Floats, noise: Floats) -> Residual:
    """The Gaussian process of highest marginal likelihood on a small grid.

    Some measurements choose the form, which takes the time; all of them are used.
    """
    chosen = np.random.default_rng(0).permutation(len(logs))[:MOST_POINTS]
    places, logs, noise = places[chosen], logs[chosen], noise[chosen]
    centre = places.mean(axis=0)
    spread = np.maximum(places.std(axis=0), LEAST_SPREAD)
    spread[-2:] = LAYOUT_SPREAD, COLD_SPREAD
    points = np.round((places - centre) / spread, 5)
    limit = 4.0 * np.median(np.abs(logs - np.median(logs))) + 0.3
    logs = np.clip(logs, np.median(logs) - limit, np.median(logs) + limit)
    some = slice(0, CHOOSING_POINTS)
    length, amplitude, sigma = _likeliest(points[some], logs[some], noise[some])
    alike = amplitude**2 * np.exp(-0.5 * _squared(points) / length**2)
    each = np.diag((sigma * noise) ** 2)
    weights: Floats = np.linalg.solve(alike + each, logs).astype(np.float64)
    return Residual(centre, spread, points, weights, length, amplitude)


def _squared(points: Floats) -> Floats:
    """Squared distances of all points from all points."""
    lengths = (points**2).sum(axis=1)
    apart: Floats = lengths[:, None] + lengths[None, :] - 2.0 * points @ points.T
    return np.maximum(apart, 0.0)


def _likeliest(
    points: Floats, logs: Floats, noise: Floats
) -> tuple[float, float, float]:
    """Length, amplitude and noise of highest marginal likelihood."""
    found: list[tuple[float, tuple[float, float, float]]] = []
    squared = _squared(points)
    for length in LENGTHS:
        alike = np.exp(-0.5 * squared / length**2)
        # Noise differs from point to point: in scaled units it is the same for all.
        values, vectors = np.linalg.eigh(alike / np.outer(noise, noise))
        turned = vectors.T @ (logs / noise)
        for amplitude, sigma in product(AMPLITUDES, NOISES):
            scale = np.maximum(values, 0.0) * amplitude**2 + sigma**2
            evidence = -0.5 * float((turned**2 / scale + np.log(scale)).sum())
            found.append((evidence, (length, amplitude, sigma)))
    return max(found)[1]
