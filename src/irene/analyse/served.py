"""What a server that runs was seen to use, and what is predicted beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from irene.account.served.requests import Shared
from irene.account.served.token_energy import EQUAL, Interval, Split, TokenCosts, split
from irene.account.served.watching import Watch
from irene.errors import IreneError, UsageError
from irene.plain import Document
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.spec import RunSpec
from irene.tree.generation import Generation, Span, generation_of

ENGINES = {"vLLM": "vllm", "llama.cpp": "llama.cpp", "Ollama": "llama.cpp"}
"""Engines that a run names; the interval of an unknown one holds all."""
MORE_STREAMS = 4
WORTH = 0.8
"""More streams are advised where a token takes this much of the energy, or less."""
MOST_CACHED = 0.99
"""Share of a prompt that a cache answers at most: the last token is computed."""
BUSY = 0.9
"""With fewer requests at a time than this the server waits for some."""


@dataclass(frozen=True, slots=True)
class Expected(Document):
    """What irene predicts for a server as it is loaded, and for more streams."""

    run: dict[str, Any]
    j_per_output_token: Span
    more_streams: int
    more_j_per_output_token: float
    costs: TokenCosts
    covers: str
    notes: tuple[str, ...]


class Expecting:
    """Predicts a model on a machine for whatever load is seen.

    Raises:
        UsageError: The machine serves no language models.
    """

    def __init__(self, run: RunSpec, on: str, engine: str) -> None:
        self._machine = find_machine(on)
        if not self._machine.serves:
            raise UsageError(f"{on} serves no language models: use h100, h200, b200, …")
        if run.engine is None:
            run = run.changed(engine=ENGINES.get(engine, "unknown"))
        self._run = run
        self._given = {
            name: getattr(run, name)
            for name in ("prompt_len", "output_len")
            if name not in run.chosen
        }
        self._found: dict[tuple[int, int, int, float], Expected] = {}

    def expected(self, seen: Interval) -> Expected | None:
        """For the streams and lengths of an interval; None where they are not known."""
        prompts = seen.prompt_tokens + seen.cached_tokens
        sizes = (
            seen.running,
            self._given.get("prompt_len") or _by(prompts, seen.requests),
            self._given.get("output_len") or _by(seen.output_tokens, seen.requests),
        )  # fmt: skip
        if not all(map(math.isfinite, sizes)):
            return None
        cached = _by(seen.cached_tokens, prompts) if prompts else 0.0
        cached = min(MOST_CACHED, round(cached, 2))
        streams, prompt, output = (max(1, _rounded(size)) for size in sizes)
        key = (streams, prompt, output, cached)
        if key not in self._found:
            self._found[key] = self._predicted(*key)
        return self._found[key]

    def _predicted(
        self, streams: int, prompt: int, output: int, cached: float
    ) -> Expected:
        told = {
            "batch_size": streams, "prompt_len": prompt, "output_len": output,
            "cached_prompt": cached or None,
        }  # fmt: skip
        now, covers, notes = self._generation(told)
        more = {**told, "batch_size": MORE_STREAMS * streams}
        later, *_ = self._generation(more)
        computed = max(1, round(prompt * (1 - cached)))
        costs = TokenCosts(
            now.prefill_j_per_request / computed, self._cached_j(told, computed, now),
            now.decode_j_per_request / output, "predicted",
        )  # fmt: skip
        told = {name: value for name, value in told.items() if value is not None}
        return Expected(
            told, now.j_per_output_token, MORE_STREAMS * streams,
            later.j_per_output_token.value, costs, covers, notes,
        )  # fmt: skip

    def _cached_j(self, told: dict[str, Any], computed: int, now: Generation) -> float:
        """What a cached token adds: the same run without any, taken away, J."""
        cached = int(told["prompt_len"]) - computed
        if not told["cached_prompt"] or cached <= 0:
            return 0.0
        alone, *_ = self._generation(
            {**told, "prompt_len": computed, "cached_prompt": None}
        )
        more_j = now.prefill_j_per_request - alone.prefill_j_per_request
        return max(0.0, more_j / cached)

    def _generation(
        self, told: dict[str, Any]
    ) -> tuple[Generation, str, tuple[str, ...]]:
        given = {name: value for name, value in told.items() if value is not None}
        tree = predict_run(self._run.changed(**given), self._machine)
        found = generation_of(tree)
        if found is None:
            raise UsageError(f"{self._run.model} is not served as a language model")
        return found, tree.hardware.covers if tree.hardware else "", tree.notes


def _by(value: float, count: float) -> float:
    return value / count if count > 0 else math.nan


def _rounded(value: float) -> int:
    """To two digits: predictions are kept, and loads change a little all the time."""
    return round(float(f"{value:.1e}"))


def verdict(seen: Interval, expected: Expected) -> str:
    """How what was seen compares with what is predicted, and why, in a few words."""
    measured, span = seen.j_per_output_token, expected.j_per_output_token
    if not math.isfinite(measured):
        return "no tokens yet"
    percent = 100 * (measured / span.value - 1)
    told = (
        f"{abs(percent):.0f} % {'above' if percent > 0 else 'below'} what is predicted"
    )
    if span.low <= measured <= span.high:
        told = f"as predicted ({round(percent):+d} %)"
    if seen.running < BUSY:
        return f"{told}: the server waits, {seen.running:.2g} requests at a time"
    saved = expected.more_j_per_output_token / span.value
    if saved <= WORTH and not seen.waiting > 0:
        why = ": streams too few," if measured >= span.low else ";"
        return (
            f"{told}{why} {expected.more_streams} at a time would take "
            f"{100 * (1 - saved):.0f} % less"
        )
    return told


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a server has found: the last minute, all, what is predicted."""

    watch: Watch
    now: Interval
    total: Interval
    costs: TokenCosts
    split: Split | None
    expected: Expected | None
    verdict: str
    note: str
    requests: tuple[Shared, ...] = ()

    def settled(self, now_s: float) -> Seen:
        """With the requests whose energy is known by a time, s since 1970."""
        sharing = self.watch.sharing
        found = sharing.settle(now_s, self.costs) if sharing is not None else ()
        return replace(self, requests=tuple(found))


def seen_by(watch: Watch, expecting: Expecting | None) -> Seen | None:
    """Look once; None where the server does not answer or no meter does."""
    looked, now, total = watch.look(), watch.recent(), watch.total
    if looked is None or now is None or total is None:
        return None
    expected, note = None, ""
    try:
        expected = expecting.expected(now) if expecting else None
    except IreneError as error:
        note = str(error)
    costs = watch.costs() or (expected.costs if expected else None)
    parts = split(now, costs) if costs and math.isfinite(now.tokens) else None
    words = verdict(now, expected) if expected else ""
    if expected and watch.covers != (expected.covers,):
        words += f"; seen is {', '.join(watch.covers)}, predicted {expected.covers}"
    return Seen(watch, now, total, costs or EQUAL, parts, expected, words, note)
