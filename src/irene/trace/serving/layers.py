"""The ops of one layer, as serving engines fuse them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from irene.trace.serving.decoder import (
    Attention,
    Decoder,
    FeedForward,
    Latent,
    Layer,
    Shared,
    StateSpace,
)
from irene.trace.serving.gguf import stored_as
from irene.trace.serving.writer import ACTIVATION_BYTES, WEIGHT_BYTES, StepWriter

NORM_FLOPS = 4
"""Square, sum, scale and weigh: FLOPs per number of a norm, as counted here."""
ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "relu": "relu", "gelu": "gelu",
}  # fmt: skip

SPACE_NAMES = {"GatedDeltaNet": "linear_attn", "Mamba": "mamba", "ShortConv": "conv"}
"""What a state space is called where it is not called as attention is."""
CHUNK = 128
"""Tokens of a prompt after which a state goes through memory, as most configs say."""


@dataclass(frozen=True, slots=True)
class WeightTypes:
    """How weights are stored.

    Attributes:
        linear: Of linear layers, without router, embedding and output.
        experts: Of routed experts.
        other: Of everything else.
    """

    linear: str
    experts: str
    other: str


class _Sizes(NamedTuple):
    """Of a state space: what enters it, what is convolved; learned and norm weights."""

    entered: int
    channels: int
    learned: int
    normed: int

    @classmethod
    def of(cls, m: StateSpace, inner: int, heads: int, shared: int) -> _Sizes:
        """Those of some of its heads, `inner` wide, whose groups are `shared` wide."""
        normed = inner * m.has_norm
        return {
            "Mamba2": cls(2 * (inner + shared) + heads, inner + 2 * shared, 3 * heads,
                          normed),
            "GatedDeltaNet": cls(2 * (inner + shared + heads), inner + 2 * shared,
                                 2 * heads, m.head_dim * m.has_norm),
            "KimiDeltaAttention": cls(3 * inner + heads + 2 * m.rank, 3 * inner,
                                      heads + inner, m.head_dim),
            "Mamba": cls(2 * inner, inner, inner * (m.state + 1), 0),
            "LightningAttention": cls(4 * inner, 3 * inner, 0, normed),
            "ShortConv": cls(3 * inner, inner, 0, 0),
        }[m.rule]  # fmt: skip


class LayerWriter:
    """Writes layers of one decoder into a step."""

    def __init__(self, decoder: Decoder, types: WeightTypes, write: StepWriter) -> None:
        self.decoder = decoder
        self.types = types
        self.write = write
        self.ranks = write.step.ranks

    def _split(self, size: int) -> int:
        """A size of one rank."""
        return math.ceil(size / self.ranks)

    def layer(self, node: int, layer: Layer) -> None:
        """Everything below the node of a layer."""
        names = self.decoder.names
        if layer.shared is not None:
            self._shared(node, layer, layer.shared)
            layer = Layer(space=layer.space)
        if layer.space is not None:
            self.norm(node, self.decoder.norms.before_attention, True)
            rule = layer.space.rule
            name = "mamba" if layer.attention is not None else names.attention
            name = SPACE_NAMES.get(rule, name)
            self._state_space(self.write.module(node, name, rule), layer.space)
        if layer.attention is not None:
            self._mixer(node, layer.attention, layer.space is None)
        if layer.feed is not None:
            self._feed(node, layer.feed)
        if self.decoder.side_width:
            self._side_input(node)

    def _shared(self, node: int, layer: Layer, shared: Shared) -> None:
        """What a layer has in common with others, and its own adapters to it."""
        a, feed, hidden = layer.attention, layer.feed, self.decoder.hidden
        assert a is not None
        assert feed is not None
        block = self.write.module(node, "shared_transformer", "SharedBlock")
        self.write.owns = shared.is_first
        self.norm(block, self.decoder.norms.before_attention, False, a.entered)
        self._attention(
            self.write.module(block, self.decoder.names.attention, "Attention"), a
        )
        self._feed(block, feed)
        self.write.owns = True
        adapters = (
            ("qkv", (a.heads + 2 * a.kv_heads) * a.head_dim, a.entered,
             shared.attention_rank, 3),
            ("gate_up_proj", 2 * feed.inter, hidden, shared.feed_rank, 1),
        )  # fmt: skip
        for name, n, k, rank, many in adapters:
            if rank:
                down, up = f"{name}_adapter.0", f"{name}_adapter.1"
                self._linear(node, down, many * rank, k, many * rank * k)
                self._linear(node, up, self._split(n), rank, rank * n)
        self._linear(node, "linear", hidden, hidden, hidden * hidden)

    def _side_input(self, node: int) -> None:
        """What the token's own vector of this layer adds to the stream."""
        hidden, side = self.decoder.hidden, self.decoder.side_width
        self._linear(node, "per_layer_input_gate", side, hidden, side * hidden)
        self.write.elementwise(
            node, "act_fn", "gelu_mul", 2 * side, side, flops=5 * side
        )
        self._linear(node, "per_layer_projection", hidden, side, side * hidden)
        self.norm(node, "post_per_layer_input_norm", True)

    def _mixer(self, node: int, a: Attention, is_normed: bool) -> None:
        norms = self.decoder.norms
        self.norm(node, norms.before_attention if is_normed else "", True)
        attention = self.write.module(node, self.decoder.names.attention, "Attention")
        if a.latent is not None:
            self._latent(attention, a, a.latent)
        else:
            self._attention(attention, a)
        self.norm(node, norms.after_attention, not norms.before_feed)

    def _feed(self, node: int, feed: FeedForward) -> None:
        norms, names = self.decoder.norms, self.decoder.names
        self.norm(node, norms.before_feed, True)
        below = node
        if names.feed:
            kind = "SparseMoe" if feed.experts else "MLP"
            below = self.write.module(node, names.feed, kind)
        self._experts(below, feed) if feed.experts else self._dense(below, feed)
        self.norm(node, norms.after_feed, not norms.before_attention)

    def norm(self, node: int, name: str, is_fused: bool, width: int = 0) -> None:
        """A norm; a fused one also adds to the residual stream, and writes it."""
        if not name:
            return
        norms, hidden = self.decoder.norms, width or self.decoder.hidden
        moved = 2 * hidden if is_fused else hidden
        self.write.elementwise(
            node, name, norms.op, moved, moved, params=norms.weights * hidden,
            flops=NORM_FLOPS * hidden,
        )  # fmt: skip

    def _attention(self, node: int, a: Attention) -> None:
        hidden, names = self.decoder.hidden, self.decoder.names
        given = a.entered or hidden
        heads = self._split(a.heads)
        kv_heads = max(1, self._split(a.kv_heads))
        gate = 1 + a.is_gated
        wide = (gate * a.heads + 2 * a.kv_heads) * a.head_dim
        width = (gate * heads + 2 * kv_heads) * a.head_dim
        self._linear(node, names.qkv, width, given, wide * given + a.qkv_bias * wide)
        rotated = (heads + kv_heads) * a.head_dim
        if a.qk_norm:
            counted = {"head": 2, "plain": 0}
            channels = a.head_dim * counted.get(a.qk_norm, a.heads + a.kv_heads)
            self.write.elementwise(
                node, "qk_norm", self.decoder.norms.op, rotated, rotated,
                params=channels, flops=NORM_FLOPS * rotated,
            )  # fmt: skip
        if a.rotary:
            self.write.elementwise(
                node, "rotary_emb", "rotary", rotated, rotated, flops=3 * rotated
            )
        self._cache_write(node, 2 * kv_heads * a.head_dim)
        sinks = a.heads if a.sinks else 0
        self.write.attention(node, heads, kv_heads, a.head_dim, a.window, params=sinks)
        full = a.heads * a.head_dim
        params = full * hidden + a.out_bias * hidden
        self._linear(node, names.out, hidden, heads * a.head_dim, params)
        self.write.all_reduce(node, hidden)

    def _cache_write(self, node: int, numbers: int) -> None:
        self.write.elementwise(
            node, "cache_write", "cache_write", numbers, numbers,
            written_bytes=WEIGHT_BYTES[self.write.cache_dtype],
        )  # fmt: skip

    def _latent(self, node: int, a: Attention, sizes: Latent) -> None:
        """Multi-head latent attention; while decoding, `kv_b_proj` goes to both sides.

        Against the compressed cache: queries are taken into its space before, what
        attention gives is taken out of it after.
        """
        hidden, rank = self.decoder.hidden, sizes.rank
        heads, key = self._split(a.heads), sizes.nope_dim + sizes.rope_dim
        linear, element = self._linear, self.write.elementwise
        queries = a.heads * key
        if sizes.query_rank:
            inner = sizes.query_rank
            linear(node, "q_a_proj", inner, hidden, inner * hidden)
            element(node, "q_a_layernorm", "rms_norm", inner, inner, params=inner)
            linear(node, "q_b_proj", heads * key, inner, queries * inner)
        else:
            linear(node, "q_proj", heads * key, hidden, queries * hidden)
        kept = rank + sizes.rope_dim
        linear(node, "kv_a_proj_with_mqa", kept, hidden, kept * hidden)
        element(node, "kv_a_layernorm", "rms_norm", rank, rank, params=rank)
        rotated = (heads + 1) * sizes.rope_dim
        element(node, "rotary_emb", "rotary", rotated, rotated, flops=3 * rotated)
        self._cache_write(node, kept)
        into = a.heads * sizes.nope_dim * rank
        out_of = a.heads * sizes.value_dim * rank
        value = sizes.value_dim
        if self.write.step.phase == "decode":
            linear(node, "kv_b_proj.keys", heads * rank, sizes.nope_dim, into)
            self.write.latent_attention(node, heads, rank, sizes.rope_dim)
            linear(node, "kv_b_proj.values", heads * value, rank, out_of)
        else:
            both = heads * (sizes.nope_dim + value)
            linear(node, "kv_b_proj", both, rank, into + out_of)
            self.write.attention(node, heads, heads, key, 0, value_dim=value)
        params = a.heads * value * hidden
        linear(node, "o_proj", hidden, heads * value, params)
        self.write.all_reduce(node, hidden)

    def _state_space(self, node: int, m: StateSpace) -> None:
        """Decoding reads and writes every sequence's state.

        Of a prompt that of each chunk is written, read and written when it is passed
        on, and read.
        """
        hidden, element = self.decoder.hidden, self.write.elementwise
        heads, groups = self._split(m.heads), self._split(m.groups)
        inner, whole = heads * m.head_dim, m.heads * m.head_dim
        here = _Sizes.of(m, inner, heads, groups * m.state)
        wide = _Sizes.of(m, whole, m.heads, m.groups * m.state)
        self._linear(node, "in_proj", here.entered, hidden, wide.entered * hidden)
        is_decode = self.write.step.phase == "decode"
        channels = here.channels
        if m.kernel:
            seen = m.kernel if is_decode else 1
            name = "conv_update" if is_decode else "causal_conv"
            biased = m.rule in ("Mamba2", "Mamba")
            element(
                node, "conv1d", name, seen * channels, seen * channels,
                params=wide.channels * (m.kernel + biased),
                flops=2 * m.kernel * channels,
            )  # fmt: skip
        if m.rule == "KimiDeltaAttention":
            for gate in ("f_b_proj", "g_b_proj"):
                self._linear(node, gate, inner, m.rank, m.rank * whole)
        elif m.rank:
            told = m.rank + 2 * m.state
            self._linear(node, "x_proj", told, inner, told * whole)
            if m.has_norm:
                element(node, "layernorm", "rms_norm", told, told, params=told)
            self._linear(node, "dt_proj", inner, m.rank, (m.rank + 1) * whole)
        state = inner * m.state
        kept, name = state * m.number_bytes // ACTIVATION_BYTES, "state_update"
        if not is_decode and m.rule not in ("Mamba", "ShortConv"):
            kept, name = 2 * kept // CHUNK, "chunk_scan"
        elif not is_decode:
            kept = 0
        element(
            node, "ssm", name, kept + channels + heads, kept + inner,
            params=wide.learned, flops=6 * state,
        )  # fmt: skip
        element(
            node, "norm", "gated_norm", 2 * inner, inner, params=wide.normed,
            flops=(NORM_FLOPS + 4) * inner,
        )  # fmt: skip
        self._linear(node, "out_proj", hidden, inner, hidden * whole)
        self.write.all_reduce(node, hidden)

    def _dense(self, node: int, feed: FeedForward) -> None:
        names = self.decoder.names
        self._pair(node, names.up, names.down, feed, feed.inter)
        self.write.all_reduce(node, self.decoder.hidden)

    def _pair(
        self, node: int, up: str, down: str, feed: FeedForward, inter: int
    ) -> None:
        """Up, activation and down, `inter` wide in all."""
        hidden, here = self.decoder.hidden, self._split(inter)
        factor = 2 if feed.gated else 1
        bias = feed.bias * factor * inter
        self._linear(node, up, factor * here, hidden, factor * inter * hidden + bias)
        name = next((v for k, v in ACTIVATIONS.items() if k in feed.activation), "gelu")
        op = f"{name}_mul" if feed.gated else name
        flops = (5 if feed.gated else 4) * here
        self.write.elementwise(node, "act_fn", op, factor * here, here, flops=flops)
        params = inter * hidden + feed.bias * hidden
        self._linear(node, down, hidden, here, params)

    def _experts(self, node: int, feed: FeedForward) -> None:
        hidden, names = self.decoder.hidden, self.decoder.names
        experts = feed.experts
        asked = experts + feed.idle
        self.write.linear(
            node, names.router, asked, hidden, weight_type=self.types.other,
            params=asked * hidden + feed.router_bias * asked,
        )  # fmt: skip
        matrices = 3 if feed.gated else 2
        bias = feed.bias * ((matrices - 1) * feed.inter + hidden)
        shared_by = self.write.step.gpus // self.write.step.expert_ranks
        self.write.moe(
            node, "experts", hidden, -(-feed.inter // shared_by), feed,
            params=experts * (matrices * feed.inter * hidden + bias),
            weight_type=stored_as(self.types.experts, "experts"),
        )  # fmt: skip
        if feed.shared_inter:
            shared = self.write.module(node, names.shared, "MLP")
            self._pair(shared, "gate_up_proj", "down_proj", feed, feed.shared_inter)
        if feed.shared_gate:
            name = f"{names.shared}_gate"
            self.write.linear(
                node, name, 1, hidden, params=hidden, weight_type=self.types.other
            )
        self.write.gather_scatter(node, hidden)
        self.write.all_reduce(node, hidden)

    def _linear(self, node: int, name: str, n: int, k: int, params: int) -> None:
        names = self.decoder.names
        roles = {names.qkv: "qkv", names.out: "out", names.down: "down"}
        kind = stored_as(self.types.linear, roles.get(name, ""))
        self.write.linear(node, name, n, k, params=params, weight_type=kind)
