"""What a decoder is made of, as far as serving it goes: sizes, layers and names."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: keys and values are kept as one small vector.

    Attributes:
        query_rank: Width of the compressed query; 0: queries are not compressed.
        rank: Width of the compressed keys and values.
        nope_dim: Width of a head's query and key without positions.
        rope_dim: Width of the part with positions, shared by all heads.
        value_dim: Width of a head's value.
    """

    query_rank: int
    rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of a layer.

    Attributes:
        heads: Heads of the queries.
        kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        window: Tokens that a token sees; 0: all before it.
        qkv_bias: Whether queries, keys and values have a bias.
        out_bias: Whether the output has one.
        qk_norm: Norm of queries and keys: "" for none, `head` for one weight per
            channel of a head, `heads` for one per channel of all heads of a tensor,
            `full` likewise over the whole width, `plain` for none at all.
        rotary: Whether positions are rotated in.
        sinks: Learned numbers per head, as gpt-oss has.
        latent: Sizes of multi-head latent attention, None for the usual one.
        is_gated: Whether what it gives is weighed by a gate as wide as the queries.
        entered: Width of what it is given; 0: that of the stream.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: str = ""
    rotary: bool = True
    sinks: bool = False
    latent: Latent | None = None
    is_gated: bool = False
    entered: int = 0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The feed-forward part of a layer: dense, or a mixture of experts.

    Attributes:
        inter: Inner width, of one expert if there are experts.
        gated: Whether there is a gate beside the first matrix.
        bias: Whether the matrices have biases.
        activation: Name of the activation.
        experts: Number of routed experts; 0: dense.
        topk: Experts that a token is sent to.
        shared_inter: Inner width of what every token also passes; 0 for nothing.
        shared_gate: Whether what is shared is weighed by a gate of its own.
        router_bias: Whether the router has a bias.
        idle: Experts beside these that give back what they are given.
    """

    inter: int
    gated: bool = True
    bias: bool = False
    activation: str = "silu"
    experts: int = 0
    topk: int = 0
    shared_inter: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    idle: int = 0


@dataclass(frozen=True, slots=True)
class StateSpace:
    """What has a state of one size instead of a cache that grows.

    Attributes:
        heads: Heads.
        head_dim: Width of a head.
        state: Numbers of the state for each channel of a head.
        groups: Groups of heads that share what is written to and read from the state.
        kernel: Tokens that the convolution before it sees; 0: there is none.
        rule: How the state changes: `Mamba2`, `GatedDeltaNet`, `KimiDeltaAttention`,
            `Mamba`, `LightningAttention`; `ShortConv` for a convolution alone.
        number_bytes: Bytes of a number of the state, which engines keep in fp32.
        rank: Width of steps or gates before they are as wide as all channels.
        has_norm: Whether what it gives is normed.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int
    rule: str = "Mamba2"
    number_bytes: int = 4
    rank: int = 0
    has_norm: bool = True


@dataclass(frozen=True, slots=True)
class Shared:
    """How a layer has its attention and feed-forward in common with others.

    They are run before its state space, on the stream and the embedding side by side,
    and what they give goes through a product of the layer's own.

    Attributes:
        is_first: Whether it is the first layer with these weights, which counts them.
        attention_rank: Width of adapters that it has of its own for queries, keys and
            values; 0: none.
        feed_rank: The same for gate and up.
    """

    is_first: bool
    attention_rank: int = 0
    feed_rank: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: attention and feed-forward; in hybrids also or only a state space."""

    attention: Attention | None = None
    feed: FeedForward | None = None
    space: StateSpace | None = None
    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class Norms:
    """The norms of a layer.

    Attributes:
        op: `rms_norm` or `layer_norm`.
        weights: Vectors of weights of a norm: 1, 2 with a bias, 0 for none.
        before_attention: Its name, "" if there is none; likewise the others.
        after_attention: On what attention gives, before it is added.
        before_feed: After attention's result was added.
        after_feed: On what the feed-forward part gives.
        embedding: After the embedding.
        final: After the last layer.
    """

    op: str = "rms_norm"
    weights: int = 1
    before_attention: str = "input_layernorm"
    after_attention: str = ""
    before_feed: str = "post_attention_layernorm"
    after_feed: str = ""
    embedding: str = ""
    final: str = "model.norm"


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called in the model's own code, as fused by engines."""

    layers: str = "model.layers"
    attention: str = "self_attn"
    qkv: str = "qkv_proj"
    out: str = "o_proj"
    feed: str = "mlp"
    up: str = "gate_up_proj"
    down: str = "down_proj"
    router: str = "gate"
    shared: str = "shared_expert"
    embedding: str = "model.embed_tokens"
    positions: str = ""
    head: str = "lm_head"


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder.

    Attributes:
        family: `model_type` of its config.
        class_name: Class that transformers would build.
        hidden: Width of the residual stream.
        vocab: Tokens of the vocabulary.
        layers: From the first to the last.
        tied: Whether output and embedding share their weights.
        norms: The norms.
        names: The names.
        embedding_width: Width of the embedding, where it is not `hidden`.
        positions: Learned positions; 0 for none.
        head_bias: Whether the output has a bias.
        weight_type: How linear weights are published: "" as the run's dtype.
        quantizes_all: Whether that goes for all linear layers or only for experts.
        side_width: Width of what every layer is told of each token beside the stream,
            from an embedding of its own; 0 for nothing.
        side_vocab: Tokens of that embedding.
        notes: What a reader should know.
    """

    family: str
    class_name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool = False
    norms: Norms = field(default_factory=Norms)
    names: Names = field(default_factory=Names)
    embedding_width: int = 0
    positions: int = 0
    head_bias: bool = False
    weight_type: str = ""
    quantizes_all: bool = True
    side_width: int = 0
    side_vocab: int = 0
    notes: tuple[str, ...] = ()
