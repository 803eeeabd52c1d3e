"""Which tokens a step of a serving engine carries."""

from __future__ import annotations

from dataclasses import dataclass, replace

from irene.spec import RunSpec

STEP_TOKENS = 8192
"""Tokens of prompts that an engine puts into one step at most, as vLLM does by default
on GPUs of 70 GB and more."""
LENGTH_SPREAD = 0.95
"""Tokens that running streams have generated so far on average, by their mean output.

Streams of equal length would give 0.5. Real answers differ, and at any moment the long
ones are over-represented: E[L²] / (2 E[L]²). It is 0.88 to 1.06 in the chat servings of
the ML.ENERGY leaderboard v3.
"""
SPREADS = {"chat": 0.97, "reasoning": 0.73, "completion": 1.64}
"""The same by workload: medians of chat, of long reasoning and of code that is filled
in there."""


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of step, and how often it is run.

    Attributes:
        phase: `prefill` or `decode`.
        sequences: Sequences that have new tokens.
        new: New tokens of each.
        past: Tokens of each that are in the KV cache.
        longest: Most tokens that are in the cache, where `past` is a mean of many.
        runs: How often it is run.
        beside: Tokens of other sequences in the same step, which are counted elsewhere.
        ranks: GPUs that share every layer.
        expert_ranks: GPUs over which whole experts are spread.
        groups: Groups of such GPUs, each with as many sequences of its own; experts are
            shared by all.
        alone: How many of the runs are steps of their own, not shared with others.
        chunks: Steps that a prompt takes; one that it only begins counts in part.
    """

    phase: str
    sequences: int
    new: int
    past: int
    longest: int = 0
    runs: float = 1.0
    beside: int = 0
    ranks: int = 1
    expert_ranks: int = 1
    groups: int = 1
    alone: float = 1.0
    chunks: float = 1.0

    @property
    def tokens(self) -> int:
        """New tokens in all."""
        return self.sequences * self.new

    @property
    def gpus(self) -> int:
        """GPUs of all groups."""
        return self.ranks * self.groups

    def to_features(self) -> dict[str, float]:
        """What the node of the step tells of it."""
        told = {"runs": self.runs, "beside": float(self.beside)}
        if self.phase == "prefill":
            told["chunks"] = self.chunks
        return told

    def past_within(self, window: int) -> int:
        """Cached tokens that a new token sees on average, of a window; 0: all."""
        if not window or self.longest <= window:
            return self.past
        shortest = max(2 * self.past - self.longest, 0)
        if shortest >= window or self.longest == shortest:
            return min(self.past, window)
        # Contexts lie evenly between the shortest and the longest.
        growing = (window - shortest) / (self.longest - shortest)
        mean = growing * (shortest + window) / 2 + (1 - growing) * window
        return round(mean)


def steps_of(spec: RunSpec) -> list[Step]:
    """The steps of a run; of a generation, how prompts are read and how it decodes.

    A generation is one round of all streams: each of `batch_size` streams is given a
    prompt and answers it. The prompt is read beside the decoding of the others, and
    gives the first token; all others are decoded.
    """
    groups = spec.data_parallel
    here = replace(spec, batch_size=spec.batch_size // groups)
    ranks, spread = spec.gpus // groups, spec.expert_parallel
    return [
        replace(step, ranks=ranks, expert_ranks=spread, groups=groups)
        for step in _steps(here)
    ]


def _steps(spec: RunSpec) -> list[Step]:
    batch, past = spec.batch_size, spec.context_len or 0
    if spec.phase == "decode":
        return [Step("decode", batch, 1, past, past)]
    if spec.phase == "prefill":
        return [Step("prefill", batch, spec.seq_len, past)]
    prefill = _prefill_beside(spec)
    return [prefill, _decode(spec)] if _outputs(spec) > 1 else [prefill]


def _outputs(spec: RunSpec) -> int:
    return spec.output_len or 1


def _prefill_beside(spec: RunSpec) -> Step:
    batch, prompt = spec.batch_size, spec.prompt_len or spec.seq_len
    # What a prefix cache answers is not read again, but the last token is.
    cached = min(round(prompt * (spec.cached_prompt or 0.0)), prompt - 1)
    prompt -= cached
    new = min(prompt, STEP_TOKENS)
    # More prompts than steps: each step carries several, as far as there is room.
    sequences = max(1, min(round(batch / _outputs(spec)), batch, STEP_TOKENS // new))
    others = batch - sequences if _outputs(spec) > 1 else 0
    chunks = prompt / new
    # Prompts that fill more steps than there are tokens to decode have their own.
    beyond = max(batch * prompt / STEP_TOKENS - _outputs(spec), 0.0)
    return Step(
        "prefill",
        sequences,
        new,
        cached + (prompt - new) // 2,
        runs=batch * chunks / sequences,
        beside=others,
        alone=1.0 / batch + beyond if others else batch * chunks / sequences,
        chunks=chunks,
    )


def _decode(spec: RunSpec) -> Step:
    batch, outputs = spec.batch_size, _outputs(spec)
    steps = outputs - 1.0 / batch
    past = mean_context(spec)
    return Step(
        "decode",
        max(1, round(batch * (outputs - 1) / steps)),
        1,
        past,
        2 * past - (spec.prompt_len or spec.seq_len),
        runs=steps,
        alone=steps,
    )


def mean_context(spec: RunSpec) -> int:
    """Tokens in the cache of a stream, on average over the steps of a generation."""
    if spec.context_len is not None:
        return spec.context_len
    prompt = spec.prompt_len or spec.seq_len
    spread = SPREADS.get(spec.workload or "", LENGTH_SPREAD)
    return prompt + round(spread * _outputs(spec))
