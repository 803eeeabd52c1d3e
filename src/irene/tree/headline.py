"""The words above a tree: what was run, what it used in all, where, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.spec import RunSpec
    from irene.tree.model_tree import ModelTree

__all__ = [
    "energy_per_unit",
    "energy_source",
    "is_warning",
    "model_name",
    "run_sizes",
]

WARNINGS = ("extrapolation:", "warning:")


def model_name(tree: ModelTree) -> str:
    """Name of the model: the spec's, or the class of the root."""
    return tree.spec.model if tree.spec else tree.root.op


def run_sizes(spec: RunSpec) -> list[str]:
    """Sizes and settings of a run, a few words each."""
    parts = [f"batch {spec.batch_size}"]
    if spec.phase == "generate":
        parts += [f"prompt {spec.prompt_len:,}", f"output {spec.output_len:,}"]
        if spec.context_len is not None:
            parts.append(f"context {spec.context_len:,}")
        return [*parts, spec.dtype, *_serving_words(spec), spec.phase]
    if spec.phase == "decode":
        parts.append(f"one token after {spec.context_len:,}")
    else:
        parts.append(f"length {spec.seq_len:,}")
        if spec.context_len:
            parts.append(f"after {spec.context_len:,} cached")
    if spec.decoder_len:
        parts.append(f"decoder length {spec.decoder_len:,}")
    attention = f"{spec.attention} attention"
    return [*parts, spec.dtype, *_serving_words(spec), attention, spec.phase]


def _serving_words(spec: RunSpec) -> list[str]:
    words = []
    if spec.quantization is not None:
        words.append(f"weights {spec.quantization}")
    if spec.cache_dtype is not None:
        words.append(f"cache {spec.cache_dtype}")
    if spec.tensor_parallel > 1:
        words.append(f"{spec.tensor_parallel} GPUs")
    return words


def energy_per_unit(tree: ModelTree) -> list[tuple[str, float]]:
    """Energy per sequence and per token, J; per input where the model reads no tokens.

    Args:
        tree: Any tree; the answer is empty if it carries no energy or no spec.
    """
    energy, spec = tree.energy_of(0), tree.spec
    if energy is None or spec is None:
        return []
    each_j = energy.joules / spec.batch_size
    if spec.phase == "generate":
        return [("request", each_j), ("output token", energy.joules / spec.tokens)]
    tokens = (spec.batch_size, spec.tokens // spec.batch_size)
    if tree.root.inputs[:1] != (tokens,):
        return [("input", each_j)]
    return [("sequence", each_j), ("token", energy.joules / spec.tokens)]


def energy_source(tree: ModelTree) -> str:
    """How the energy came about, on which hardware, and what of it is covered."""
    energy, hardware = tree.energy_of(0), tree.hardware
    if energy is None:
        return ""
    words: str = energy.source
    if hardware is not None:
        words += f" {'on' if energy.source == 'measured' else 'for'} {hardware.name}"
        words += f" · covers {hardware.covers}"
    return f"{words} · by {energy.produced_by}"


def is_warning(note: str) -> bool:
    """True for a note that says that the numbers are to be doubted."""
    return note.startswith(WARNINGS)
