"""A server that runs, for people and for machines."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from irene.account.served.requests import Shared
from irene.account.served.token_energy import Interval
from irene.analyse.served import Seen
from irene.measure.windows.exported import Figure
from irene.show.text import plain

SCHEMA = "irene.watch/1"
KINDS = {"prompt": "input", "cached": "cached_input", "output": "output"}
"""Tokens, and what GenAI's conventions call them."""
PARTS = {
    "prompt_j": "prompts", "cached_j": "cached prompts", "output_j": "answers",
    "idle_j": "idle",
}  # fmt: skip


def served_document(seen: Seen, url: str) -> dict[str, Any]:
    """What a look has found, as JSON-ready values."""
    watch, sharing = seen.watch, seen.watch.sharing
    return {
        "schema": SCHEMA, "time": time.time(), "url": url,
        "engine": watch.counts.engine, "model": watch.counts.model,
        "covers": list(watch.covers), "source": watch.source, "now": seen.now.to_dict(),
        "total": seen.total.to_dict(),
        "split": asdict(seen.split) if seen.split else None,
        "split_by": seen.costs.source if seen.split else None,
        "requests": sharing and {
            "ended": [each.to_dict() for each in seen.requests],
            "by": seen.costs.source, "waiting": sharing.waiting,
            "idle_j": sharing.idle_j,
        },
        "predicted": seen.expected.to_dict() if seen.expected else None,
        "verdict": seen.verdict or None, "note": seen.note or None,
    }  # fmt: skip


def served_figures(seen: Seen | None, model: str) -> list[Figure]:
    """What Prometheus and OpenTelemetry are told, with the names of GenAI."""
    labels, name = {"gen_ai.request.model": model}, "irene.server.energy"
    total = asdict(seen.total) if seen else {}
    found = [Figure(name, "J", total.get("energy_j", 0.0), labels, grows=True)]
    for kind, told in KINDS.items():
        tokens, typed = total.get(f"{kind}_tokens", 0.0), {"gen_ai.token.type": told}
        usage = "irene.server.usage"
        found.append(Figure(usage, "{token}", tokens, {**labels, **typed}, grows=True))
    now = seen.now.j_per_output_token if seen else math.nan
    expected = seen.expected if seen else None
    predicted = expected.j_per_output_token.value if expected else math.nan
    return [
        *found, Figure(f"{name}.output", "J/{token}", now, labels),
        Figure(f"{name}.output.predicted", "J/{token}", predicted, labels),
    ]  # fmt: skip


def served_lines(
    seen: Seen, url: str, on: str | None, last: Sequence[Shared]
) -> list[str]:
    """What a look has found, in a few lines."""
    now, counts = seen.now, seen.watch.counts
    guess = ", estimated" if seen.watch.source == "estimated" else ""
    rows = {
        "power": f"{_number(now.power_w)} W, {', '.join(seen.watch.covers)}{guess}",
        "requests": f"{_number(now.running)} at a time, {_number(now.waiting)} waiting",
        "tokens": _tokens(now),
        "energy": _energies(now),
        "of which": _parts(seen),
        "each": _each(seen, last),
        "predicted": _predicted(seen, on),
        "all in all": f"{_energies(seen.total)} in {seen.total.seconds:.0f} s",
    }
    if math.isnan(now.output_tokens):
        rows["note"] = f"{counts.engine} counts no tokens: give --proxy or --requests"
    title = " · ".join(filter(None, (counts.engine, counts.model, url)))
    told = [f"  {name:<11}{plain(text)}" for name, text in rows.items() if text]
    return [plain(title), *told]


def _predicted(seen: Seen, on: str | None) -> str:
    if on is None:
        return ""
    if seen.expected is None:
        unknown = "lengths are not known yet: give --prompt and --output"
        return seen.note or unknown
    span = seen.expected.j_per_output_token
    ends = f"({_number(span.low)} – {_number(span.high)})"
    told = f"{_number(span.value)} J {ends} per output token on {on}"
    return f"{told}: {seen.verdict}"


def _tokens(now: Interval) -> str:
    if math.isnan(now.output_tokens):
        return ""
    prompts = now.prompt_tokens + now.cached_tokens
    cached = f", {100 * now.cached_tokens / prompts:.0f} % cached" if prompts else ""
    out = _number(now.output_tokens_per_s)
    return f"{out} per s out, {_number(prompts / now.seconds)} per s in{cached}"


def _energies(row: Interval) -> str:
    energies = {
        "J per output token": row.j_per_output_token, "J per token": row.j_per_token,
        "J per request": row.j_per_request,
    }  # fmt: skip
    known = [f"{_number(j)} {unit}" for unit, j in energies.items() if math.isfinite(j)]
    return " · ".join(known) or f"{_number(row.energy_j)} J"


def _parts(seen: Seen) -> str:
    if seen.split is None or not seen.now.energy_j > 0:
        return ""
    shares = {k: 100 * j / seen.now.energy_j for k, j in asdict(seen.split).items()}
    parts = [f"{PARTS[k]} {share:.0f} %" for k, share in shares.items() if share > 0]
    return f"{', '.join(parts)} (by {seen.costs.source} costs)"


def _each(seen: Seen, last: Sequence[Shared]) -> str:
    if seen.watch.sharing is None:
        return ""
    waiting = f"{seen.watch.sharing.waiting} wait for others to be told"
    if not last:
        return waiting
    energies = [each.energy_j for each in last]
    most = max(last, key=lambda each: each.energy_j)
    name = f" ({most.request.name})" if most.request.name else ""
    return (
        f"{_number(median(energies))} J median of {len(energies)}, "
        f"{_number(most.energy_j)} J at most{name}, by {seen.costs.source} costs; "
        f"{waiting}"
    )


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
