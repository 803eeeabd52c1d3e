"""What a generation takes per request, per token and per second, read off its tree."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree
    from irene.tree.node import Node


@dataclass(frozen=True, slots=True)
class Span:
    """A value with its interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Span:
        """All three times a positive number."""
        return Span(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Generation:
    """Energy and time of a generation in steady state.

    Attributes:
        j_per_request: J, of all GPUs that take part.
        j_per_output_token: J.
        j_per_total_token: J, tokens of prompts and answers counted alike.
        j_per_second: W, of all GPUs together.
        ttft_s: Time to first token: of the steps that carry the prompt, without a
            queue before them, s.
        tbt_s: Time between two tokens of a stream on average, s; of one stream alone
            without the time to the first, which nothing hides.
        output_tokens_per_s: Of all streams.
        prefill_j_per_request: What reading the prompt adds, J.
        decode_j_per_request: The rest, J.
        op_j_per_request: Above idle power, while kernels run, J.
        static_j_per_request: Idle power times time, J.
        gap_j_per_request: The part of it between kernels, J.
    """

    j_per_request: Span
    j_per_output_token: Span
    j_per_total_token: Span
    j_per_second: Span
    ttft_s: Span
    tbt_s: Span
    output_tokens_per_s: float
    prefill_j_per_request: float
    decode_j_per_request: float
    op_j_per_request: float
    static_j_per_request: float
    gap_j_per_request: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values: the value under its name, ends of intervals beside."""
        fields: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                fields[name] = value["value"]
                fields[f"{name}_low"] = value["low"]
                fields[f"{name}_high"] = value["high"]
            else:
                fields[name] = value
        return fields


def generation_of(tree: ModelTree) -> Generation | None:
    """What a predicted tree of phase `generate` says; None for other trees."""
    spec, energy = tree.spec, tree.energy_of(0)
    if spec is None or spec.phase != "generate" or energy is None:
        return None
    parts = {node.name: node for node in tree.root.children}
    root = tree.root.features
    if "prefill" not in parts or "time_s" not in root:
        return None
    requests, outputs = spec.batch_size, spec.output_len or 1
    prompt = spec.prompt_len or spec.seq_len
    total = Span(energy.joules, energy.low, energy.high)
    time_s = root["time_s"]
    spread = root.get("time_spread", 1.0)
    between = _spread(_between(spec.batch_size, outputs, time_s, parts), spread)
    gaps = sum(_total(tree, each) for each in tree.nodes("ml") if each.name == "gap")
    static_j, power = root["static_j"], total.scaled(1 / time_s)
    # What makes energy uncertain may be time: power stays between idle and the limit.
    least_w = min(max(power.low, root.get("idle_w", 0.0)), power.value)
    most_w = max(min(power.high, root.get("tdp_w", math.inf)), power.value)
    return Generation(
        j_per_request=total.scaled(1 / requests),
        j_per_output_token=total.scaled(1 / (requests * outputs)),
        j_per_total_token=total.scaled(1 / (requests * (prompt + outputs))),
        j_per_second=Span(power.value, least_w, most_w),
        ttft_s=_spread(_first_token(parts), spread),
        tbt_s=between,
        output_tokens_per_s=requests * outputs / time_s,
        prefill_j_per_request=_total(tree, parts["prefill"]) / requests,
        decode_j_per_request=(
            _total(tree, parts["decode"]) / requests if "decode" in parts else 0.0
        ),
        op_j_per_request=(energy.joules - static_j) / requests,
        static_j_per_request=static_j / requests,
        gap_j_per_request=gaps / requests,
    )


def _spread(value: float, factor: float) -> Span:
    return Span(value, value / factor, value * factor)


def _total(tree: ModelTree, node: Node) -> float:
    energy = node.energy
    return energy.joules * int(tree.multiplicity[node.row]) if energy else 0.0


def _between(
    streams: int, outputs: int, time_s: float, parts: dict[str, Node]
) -> float:
    """Time between tokens: prompts of other streams are read in between."""
    if streams == 1 and "decode" in parts:
        return parts["decode"].features["time_s"] / (outputs - 1)
    return time_s / outputs


def _first_token(parts: dict[str, Node]) -> float:
    """Steps that carry a prompt: what it adds, and what runs beside it."""
    prefill = parts["prefill"].features
    chunks, runs = prefill.get("chunks", 1.0), prefill.get("runs", 1.0)
    one = prefill["time_s"] / runs
    if "decode" in parts and prefill.get("beside", 0.0):
        decode = parts["decode"].features
        one += decode["time_s"] / decode.get("runs", 1.0)
    return chunks * one
