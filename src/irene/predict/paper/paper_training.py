"""Adam, one tree at a time (Kingma and Ba 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irene.predict.method import Floats
from irene.predict.paper.composition import Composition, Example

__all__ = ["Adam", "Training", "train"]


@dataclass(frozen=True, slots=True)
class Training:
    """How long and how fast to learn.

    Attributes:
        epochs: How often every tree is seen.
        learning_rate: Size of a step.
        seed: Where the weights start.
    """

    epochs: int = 8
    learning_rate: float = 1e-3
    seed: int = 0


class Adam:
    """Steps along the running mean of the gradient, over its running size.

    Args:
        size: Number of weights.
        learning_rate: Size of a step.
    """

    DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, size: int, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._mean = np.zeros(size)
        self._square = np.zeros(size)
        self._steps = 0

    def step(self, weights: Floats, gradient: Floats) -> None:
        """Change the weights in place."""
        self._steps += 1
        self._mean += (1 - self.DECAY) * (gradient - self._mean)
        self._square += (1 - self.SQUARE_DECAY) * (gradient * gradient - self._square)
        size = np.sqrt(self._square)
        size /= np.sqrt(1 - self.SQUARE_DECAY**self._steps)
        size += self.EPSILON
        pace = self._learning_rate / (1 - self.DECAY**self._steps)
        weights -= pace * self._mean / size


def train(
    composition: Composition, examples: Sequence[Example], training: Training
) -> Floats:
    """Weights that make parents out of children.

    Args:
        composition: What is learned.
        examples: Trees, seen in this order in every epoch.
        training: How.
    """
    size = examples[0].features.shape[1]
    bound = 1.0 / np.sqrt(size - 1)  # the constant is the bias, not a feature
    weights: Floats = np.random.default_rng(training.seed).uniform(-bound, bound, size)
    if composition.weighting == "one":
        return weights
    adam = Adam(size, training.learning_rate)
    for _ in range(training.epochs):
        for example in examples:
            adam.step(weights, composition.loss(weights, example)[1])
    return weights
