"""A model and a run in, the tree of what a serving engine runs out; needs no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from irene.errors import LimitError, SpecError
from irene.spec import RunOptions, RunSpec
from irene.trace.limits import Limits, limits_from_environment
from irene.trace.serving.config import read_decoder
from irene.trace.serving.decoder import Decoder, Layer
from irene.trace.serving.gguf import MIXES, stored_as
from irene.trace.serving.layers import LayerWriter, WeightTypes
from irene.trace.serving.step import Step, steps_of
from irene.trace.serving.writer import StepWriter
from irene.trace.twins import find_config
from irene.tree import ModelTree, TreeBuilder
from irene.tree.columns import features_of_rows

SERVING = "serving engine"
"""Value of `provenance["traced_as"]` of such trees."""
FUSED = (
    "ops as serving engines fuse them: one product for queries, keys and values, one "
    "for gate and up, residual adds within norms"
)
LOGIT_READS, LOGIT_WRITES = 5, 4
"""bf16 numbers moved per logit to sample: to fp32, softmax, draw."""


def serving_tree(
    model: str | Path | Mapping[str, Any],
    *,
    limits: Limits | None = None,
    name: str | None = None,
    **run: Unpack[RunOptions],
) -> ModelTree:
    """The tree of a serving step, or of a whole generation.

    Args:
        model: Catalogue name, Hugging Face id, path of a config.json, or its fields.
        limits: What is refused; by default `DEFAULT_LIMITS`.
        name: What to call a model that is given by its fields.
        **run: Fields of `RunSpec`; phase `prefill`, `decode` or `generate`.

    Returns:
        The tree, equal layers folded. In `generate` it is one round of all streams,
        with `prefill` and `decode` below the model.

    Raises:
        UnknownModelError: Nothing answers to that name.
        ConfigError: It is not the config of a decoder that can be read.
        SpecError: A size or setting is impossible.
        LimitError: The config or run asks for absurd sizes.
    """
    return served(model, RunSpec.asked(name or "", run), limits)


def served(
    model: str | Path | Mapping[str, Any], spec: RunSpec, limits: Limits | None = None
) -> ModelTree:
    """The tree of the serving that a spec describes; as `serving_tree`."""
    limits = limits or limits_from_environment()
    if isinstance(model, Mapping):
        config, origin = model, "given"
        called = spec.model or str(model.get("model_type"))
    else:
        source = find_config(model, limits)
        config, called, origin = source.read(limits), source.name, source.origin
    limits.check_config(config)
    text = json.dumps(dict(config), sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    spec = _as_engines_run(replace(spec, model=called, config_digest=digest))
    limits.check_spec(spec)
    tree = decoder_tree(read_decoder(config), spec)
    return tree.with_provenance({"config": origin, **tree.provenance})


def _as_engines_run(spec: RunSpec) -> RunSpec:
    """In bf16 unless somebody says otherwise, always with fused attention."""
    if spec.given("attention") and spec.attention != "sdpa":
        raise SpecError(
            f"serving engines fuse attention (sdpa): attention {spec.attention!r} is "
            "for a forward pass, prefill or decode that is traced"
        )
    usual = {"dtype": "bf16", "attention": "sdpa"}
    return spec.chosen_as(**{k: v for k, v in usual.items() if k in spec.chosen})


def is_serving_tree(tree: ModelTree) -> bool:
    """Whether a tree was made here."""
    return tree.provenance.get("traced_as") == SERVING


def decoder_tree(decoder: Decoder, spec: RunSpec) -> ModelTree:
    """The tree of a decoder; as `serving_tree`."""
    _check(decoder, spec)
    builder = TreeBuilder()
    features: dict[int, dict[str, float]] = {}
    shape = ((spec.batch_size, spec.tokens // spec.batch_size),)
    root = builder.add(-1, "", "model", decoder.class_name)
    builder.rows[root].signature = builder.rows[root].signature._replace(inputs=shape)
    steps = steps_of(spec)
    for step in steps:
        below = root
        if spec.phase == "generate":
            below = builder.add(root, step.phase, "module", step.phase)
            features[below] = step.to_features()
        features |= _write_step(builder, below, decoder, spec, step)
    _add_up_params(builder)
    builder.rows[root].params //= len(steps)
    order = builder.order()
    tree = builder.build(
        spec=spec,
        provenance={"class": decoder.class_name, "traced_as": SERVING},
        notes=(FUSED, *decoder.notes, *_notes(decoder, spec)),
    )
    rows = [features.get(handle, {}) for handle in order]
    return tree.with_features(features_of_rows(rows))


def _check(decoder: Decoder, spec: RunSpec) -> None:
    if spec.phase not in ("prefill", "decode", "generate"):
        raise SpecError(
            f"phase {spec.phase!r} is no serving: use prefill, decode or generate"
        )
    groups = spec.data_parallel
    if spec.batch_size % groups or spec.gpus % groups:
        raise SpecError(
            f"data_parallel={groups} cannot deal out {spec.batch_size} streams and "
            f"{spec.gpus} GPUs alike: use a divisor of both"
        )
    ranks = spec.gpus // groups
    if spec.expert_parallel > 1:
        _check_experts(decoder, spec)
    heads = (each.attention.heads for each in decoder.layers if each.attention)
    if ranks > min(heads, default=ranks):
        raise SpecError(f"{ranks} GPUs are more than there are heads")
    if decoder.positions:
        last = (spec.context_len or spec.seq_len) + (spec.output_len or 0)
        if last > decoder.positions:
            raise LimitError(
                f"the model has {decoder.positions:,} positions, the run needs {last:,}"
            )


def _check_experts(decoder: Decoder, spec: RunSpec) -> None:
    spread = spec.expert_parallel
    feeds = [layer.feed for layer in decoder.layers if layer.feed]
    experts = [feed.experts for feed in feeds if feed.experts]
    if not experts:
        raise SpecError(f"expert_parallel={spread}: the model has no experts")
    if spread > min(experts) or spec.gpus % spread:
        raise SpecError(
            f"expert_parallel={spread} spreads {min(experts)} experts over "
            f"{spec.gpus} GPUs: use a divisor of tensor_parallel, or leave that out"
        )


def _notes(decoder: Decoder, spec: RunSpec) -> tuple[str, ...]:
    notes = []
    if decoder.weight_type and spec.quantization is None:
        what = "all linear layers" if decoder.quantizes_all else "experts"
        notes.append(f"weights of {what} as published, in {decoder.weight_type}")
    if spec.phase == "generate" and spec.batch_size == 1:
        notes.append("one stream: reads its prompt, then decodes; costs of all steps")
    elif spec.phase == "generate":
        notes.append(
            f"one round of {spec.batch_size:,} streams: each reads its prompt beside "
            "the decoding of the others, then decodes; costs of all its steps"
        )
    if spec.gpus > 1:
        notes.append(f"shapes are of one of {spec.gpus} ranks, costs of all of them")
    if spec.data_parallel > 1:
        notes.append(
            f"{spec.data_parallel} groups of GPUs, each with its own streams, taken as "
            "equally busy in every step"
        )
    return tuple(notes)


def _weight_types(decoder: Decoder, spec: RunSpec) -> WeightTypes:
    asked = spec.quantization or decoder.weight_type
    kind = spec.dtype if asked in ("", "bf16") else asked
    as_published = asked == decoder.weight_type
    linear = spec.dtype if as_published and not decoder.quantizes_all else kind
    return WeightTypes(linear, kind, spec.dtype)


def _write_step(
    builder: TreeBuilder, node: int, decoder: Decoder, spec: RunSpec, step: Step
) -> dict[int, dict[str, float]]:
    """Embedding, layers, norm, output and sampling of a step, below a node."""
    write = StepWriter(builder, step, spec.dtype, spec.cache_dtype or spec.dtype)
    layers = LayerWriter(decoder, _weight_types(decoder, spec), write)
    hidden, names = decoder.hidden, decoder.names
    _embed(write, node, decoder)
    layers.norm(node, decoder.norms.embedding, False)
    where, _, prefix = names.layers.rpartition(".")
    stack = write.module(node, where, decoder.class_name.removesuffix("ForCausalLM"))
    for layer, indices in _equal_layers(decoder.layers):
        members = tuple((f"{prefix}.{i}", i) for i in indices)
        made = builder.add(
            stack, members[0][0], "module", f"{decoder.family}.layer",
            count=len(members), members=members if len(members) > 1 else (),
        )  # fmt: skip
        layers.layer(made, layer)
    rows = step.sequences
    layers.norm(node, decoder.norms.final, True)
    vocab = -(-decoder.vocab // step.ranks)
    width = decoder.embedding_width or hidden
    params = 0 if decoder.tied else decoder.vocab * width
    params += decoder.head_bias * decoder.vocab
    kind = layers.types.linear
    write.linear(
        node, names.head, vocab, width, params=params, tokens=rows, op="lm_head",
        weight_type=stored_as(kind, "head") if kind in MIXES else "",
    )  # fmt: skip
    write.elementwise(
        node, "sample", "sample", LOGIT_READS * decoder.vocab,
        LOGIT_WRITES * decoder.vocab, tokens=rows, flops=5 * decoder.vocab,
    )  # fmt: skip
    write.gap(node, decoder.vocab)
    return write.features


def _embed(write: StepWriter, node: int, decoder: Decoder) -> None:
    hidden, width = decoder.hidden, decoder.embedding_width
    write.elementwise(
        node, decoder.names.embedding, "embedding", width or hidden, width or hidden,
        params=decoder.vocab * (width or hidden),
    )  # fmt: skip
    if width:
        for name, n, k in (("in", hidden, width), ("out", width, hidden)):
            at = decoder.names.embedding.rpartition(".")[0]
            write.linear(node, f"{at}.project_{name}", n, k, params=n * k)
    if decoder.side_width:
        sides = decoder.side_width * len(decoder.layers)
        write.elementwise(
            node, "model.embed_tokens_per_layer", "embedding", sides, sides,
            params=decoder.side_vocab * sides,
        )  # fmt: skip
        write.linear(
            node, "model.per_layer_model_projection", sides, hidden,
            params=sides * hidden,
        )  # fmt: skip
        write.elementwise(
            node, "model.per_layer_projection_norm", "rms_norm", sides, sides,
            params=decoder.side_width, flops=4 * sides,
        )  # fmt: skip
    if decoder.positions:
        write.elementwise(
            node, decoder.names.positions, "embedding", 2 * hidden, hidden,
            params=decoder.positions * hidden, flops=hidden,
        )  # fmt: skip
    write.all_reduce(node, hidden)


def _equal_layers(layers: tuple[Layer, ...]) -> list[tuple[Layer, list[int]]]:
    """Distinct layers in the order they first occur, with their places."""
    places: dict[Layer, list[int]] = {}
    for i, layer in enumerate(layers):
        places.setdefault(layer, []).append(i)
    return list(places.items())


def _add_up_params(builder: TreeBuilder) -> None:
    """Give every node the parameters of those below it."""
    for row in reversed(builder.rows):
        if row.parent >= 0:
            builder.rows[row.parent].params += row.params * row.count
