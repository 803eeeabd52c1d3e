"""Measured servings: one row per model, GPU and number of streams."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from irene.errors import FormatError, UsageError
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

__all__ = ["PROMPT", "Serving", "read_servings"]

PROMPT = 750
"""Tokens of a prompt of the chat workload. Its publisher does not say; this many fit
the times of steps."""


@dataclass(frozen=True, slots=True)
class Serving:
    """One measured serving.

    Attributes:
        model: Hugging Face id.
        gpu: Name of the GPU, as given to `--on`.
        batch_size: Streams that run at a time, on average.
        output_len: Tokens of an answer, on average.
        generated: Tokens that a running stream has generated so far, on average.
        j_per_token: Energy of the GPU per output token, J.
        step_s: Time between two tokens of a stream, on average, s.
    """

    model: str
    gpu: str
    batch_size: float
    output_len: float
    generated: float
    j_per_token: float
    step_s: float

    def tree(self, prompt: int = PROMPT) -> ModelTree:
        """The tree of what it ran."""
        return serving_tree(
            self.model,
            phase="generate",
            batch_size=max(1, round(self.batch_size)),
            prompt_len=prompt,
            output_len=max(1, round(self.output_len)),
            context_len=round(prompt + self.generated),
        )


def read_servings(path: str | Path) -> list[Serving]:
    """Servings in the columns of the ML.ENERGY leaderboard, one GPU each.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: A column is missing or is not a number.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        return [_serving(row) for row in rows]
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: not a table of servings: {error!r}") from error


def _serving(row: Mapping[str, str]) -> Serving:
    batch = float(row["avg_batch_size"])
    return Serving(
        row["model"],
        row["gpu"].lower(),
        batch,
        float(row["avg_output_len"]),
        float(row["mean_generated_so_far"]),
        float(row["energy_per_token_j"]),
        batch / float(row["output_tokens_per_s"]),
    )
