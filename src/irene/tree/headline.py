"""The words above a tree: what was run, what it used in all, where, and who says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.energy import Energy
    from irene.spec import RunSpec
    from irene.tree.model_tree import ModelTree

WARNINGS = ("extrapolation:", "warning:")
NO_ENERGY = (
    "this tree carries no energy: predict it (`irene predict`) or measure it first"
)
NO_ROOM = "do not fit into"
"""What a warning says of a model that is larger than the memory."""


def model_name(tree: ModelTree) -> str:
    """Name of the model: the spec's, or the class of the root."""
    return tree.spec.model if tree.spec else tree.root.op


def whole_energy(tree: ModelTree) -> Energy:
    """Energy of the whole tree.

    Raises:
        UsageError: It carries none.
    """
    if (energy := tree.energy_of(0)) is None:
        raise UsageError(NO_ENERGY)
    return energy


def sequence_energy(tree: ModelTree) -> Energy:
    """Energy of one sequence (image, clip) of a run; of a run without sizes, of all."""
    return whole_energy(tree).scaled(1 / (tree.spec.batch_size if tree.spec else 1))


def run_sizes(spec: RunSpec, without: str = "") -> list[str]:
    """Sizes and settings of a run, a few words each; those nobody gave have a star.

    Args:
        spec: The run.
        without: A field of it that is not told, as it varies.
    """
    told = [(name, words) for name, words in _run_words(spec) if words]
    told = [(name, words) for name, words in told if name != without]
    parts = [f"{words}*" if name in spec.chosen else words for name, words in told]
    if any(each.endswith("*") for each in parts):
        parts[-1] += " (*=chosen)"
    return parts


def tree_sizes(tree: ModelTree) -> list[str]:
    """Those of a tree's run; no length that nobody gave where only images are read."""
    spec = tree.spec
    if spec is None:
        return []
    sizes = run_sizes(spec)
    if spec.given("seq_len") or not tree.root.inputs:
        return sizes
    reads_tokens = any(len(shape) == 2 for shape in tree.root.inputs)
    return [each for each in sizes if reads_tokens or not each.startswith("length ")]


def run_words(tree: ModelTree) -> str:
    """Sizes and settings of a tree's run in one line; "" where it has none."""
    return " · ".join(tree_sizes(tree))


def _run_words(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Fields of a run that matter in its phase, each in words."""
    yield "batch_size", f"batch {spec.batch_size}"
    context = "" if spec.context_len is None else f"{spec.context_len:,}"
    if spec.phase == "generate":
        yield "prompt_len", f"prompt {spec.prompt_len:,}"
        yield "output_len", f"output {spec.output_len:,}"
        yield "context_len", context and f"context {context}"
    elif spec.phase == "decode":
        yield "context_len", f"one token after {context}"
    else:
        yield "seq_len", f"length {spec.seq_len:,}"
        yield "context_len", f"after {context} cached" if spec.context_len else ""
    decoder = spec.decoder_len
    yield "decoder_len", f"decoder length {decoder:,}" if decoder else ""
    yield "dtype", spec.dtype
    yield "quantization", f"weights {spec.quantization}" if spec.quantization else ""
    yield "cache_dtype", f"cache {spec.cache_dtype}" if spec.cache_dtype else ""
    spread = "expert_parallel" if spec.given("expert_parallel") else "tensor_parallel"
    yield spread, f"{spec.gpus} GPUs" if spec.gpus > 1 else ""
    groups = spec.data_parallel
    yield "data_parallel", f"in {groups} groups" if groups > 1 else ""
    yield "engine", f"engine {spec.engine}" if spec.engine else ""
    yield "workload", spec.workload or ""
    cached = spec.cached_prompt
    yield "cached_prompt", f"{cached:.0%} of prompts cached" if cached else ""
    limit_w = spec.power_limit_w
    yield "power_limit_w", f"boards held to {limit_w:g} W" if limit_w else ""
    yield "at", f"at the {spec.at}" if spec.at else ""
    yield "attention", f"{spec.attention} attention"
    yield "phase", spec.phase


def units_of(tree: ModelTree) -> list[tuple[str, int]]:
    """How many sequences and tokens a run has; inputs where it reads no tokens."""
    if (spec := tree.spec) is None:
        return []
    counts = (spec.batch_size, spec.tokens)
    tokens = (spec.batch_size, spec.tokens // spec.batch_size)
    if spec.phase != "generate" and tree.root.inputs[:1] != (tokens,):
        return [("input", spec.batch_size)]
    return list(zip(unit_words(spec.phase), counts, strict=True))


def energy_per_unit(tree: ModelTree) -> list[tuple[str, float]]:
    """Energy per sequence and token, J; per input where no tokens are read."""
    if (energy := tree.energy_of(0)) is None:
        return []
    return [(unit, energy.joules / count) for unit, count in units_of(tree)]


def run_time(tree: ModelTree) -> tuple[float, float, float] | None:
    """How long a run takes, with its interval, s; None where nobody knows."""
    root = tree.root.features
    seconds = root.get("time_s")
    if not seconds:
        return None
    spread = root.get("time_spread", 1.0)
    return seconds, seconds / spread, seconds * spread


def energy_source(tree: ModelTree) -> str:
    """How the energy came about, on which hardware, and what of it is covered."""
    energy, hardware = tree.energy_of(0), tree.hardware
    if energy is None:
        return ""
    words: str = energy.source
    if hardware is not None:
        words += f" {energy_place(tree)} · covers {hardware.covers}"
    return f"{words} · by {energy.produced_by}"


def energy_place(tree: ModelTree) -> str:
    """The machine of the energy, what it is and of which year; "" without any."""
    energy, hardware = tree.energy_of(0), tree.hardware
    if energy is None or hardware is None:
        return ""
    return f"{'on' if energy.source == 'measured' else 'for'} {hardware.words}"


def is_warning(note: str) -> bool:
    """True for a note that says that the numbers are to be doubted."""
    return note.startswith(WARNINGS)


def unfit(tree: ModelTree) -> str:
    """Why a run does not fit into the memory of its machine, "" where it does."""
    if not tree.root.features.get("memory_share", 0.0) > 1.0:
        return ""
    found = (note for note in tree.notes if NO_ROOM in note)
    return next(found, "does not fit into memory").removeprefix("warning: ")


def unit_words(phase: str) -> tuple[str, str]:
    """What a sequence and a token are called in a phase."""
    return ("request", "output token") if phase == "generate" else ("sequence", "token")
