"""Quantisations of GGUF files: which blocks store which weights.

A file such as q4_K_M mixes blocks: the output layer and, in half of the layers, values
and the last feed-forward matrix have more bits. Bits of a weight are those of the
published layouts with their scales, as means over layers.
"""

from __future__ import annotations

from collections.abc import Mapping

BLOCKS = {
    "q2_K": 2.625, "q3_K": 3.4375, "q4_0": 4.5, "q4_1": 5.0, "q4_K": 4.5, "q5_0": 5.5,
    "q5_1": 6.0, "q5_K": 5.5, "q6_K": 6.5625, "q8_0": 8.5,
}  # fmt: skip
"""Bits of a weight by kind of block (256 weights in those with K, else 32)."""
OTHER_BLOCKS = {
    "iq1_s": 1.5625, "iq1_m": 1.75, "tq1_0": 1.6875, "iq2_xxs": 2.0625,
    "tq2_0": 2.0625, "iq2_xs": 2.3125, "iq2_s": 2.5625, "iq3_xxs": 3.0625,
    "iq3_s": 3.4375, "iq4_xs": 4.25, "iq4_nl": 4.5, "q8_1": 9.0, "q8_k": 9.125,
    "f16": 16.0, "bf16": 16.0, "f32": 32.0,
}  # fmt: skip
"""The same of kinds that no mix here is made of."""
PARTS = {
    "attn_q": "qkv", "attn_k": "qkv", "attn_v": "qkv", "attn_qkv": "qkv",
    "attn_output": "out", "ffn_down": "down", "ffn_down_exps": "experts",
    "ffn_up_exps": "experts", "ffn_gate_exps": "experts",
}  # fmt: skip
"""Roles of the tensors of a layer, by their names in files; others have none."""
VALUE_SHARE = 1 / 6
"""Values by queries, keys and values together, where four heads share a key."""


def _mix(
    usual: str, value: float = 0, down: float = 0, out: float = 0, head: str = "q6_K"
) -> Mapping[str, float]:
    """Bits by role; what is not said is as usual."""
    bits = BLOCKS[usual]
    down = down or bits
    return {
        "": bits,
        "qkv": bits + VALUE_SHARE * ((value or bits) - bits),
        "out": out or bits,
        "down": down,
        "experts": (2 * bits + down) / 3,
        "head": BLOCKS[head],
    }


def _mean(few: str, many: str, share: float) -> float:
    return BLOCKS[few] + share * (BLOCKS[many] - BLOCKS[few])


_Q4, _Q5 = _mean("q4_K", "q6_K", 1 / 2), _mean("q5_K", "q6_K", 1 / 2)
_MORE = _mean("q4_K", "q5_K", 1 / 8)
MIXES: Mapping[str, Mapping[str, float]] = {
    "q2_K": _mix("q2_K", 4.5, BLOCKS["q3_K"], BLOCKS["q3_K"]),
    "q3_K_S": _mix("q3_K"),
    "q3_K_M": _mix("q3_K", 4.5, _mean("q3_K", "q4_K", 0.58), 4.5),
    "q3_K_L": _mix("q3_K", 5.5, 5.5, 5.5),
    "q4_0": _mix("q4_0"),
    "q4_1": _mix("q4_1"),
    "q4_K_S": _mix("q4_K", _MORE, _MORE),
    "q4_K_M": _mix("q4_K", _Q4, _Q4),
    "q5_0": _mix("q5_0"),
    "q5_1": _mix("q5_1"),
    "q5_K_S": _mix("q5_K"),
    "q5_K_M": _mix("q5_K", _Q5, _Q5),
    "q6_K": _mix("q6_K"),
    "q8_0": _mix("q8_0", head="q8_0"),
}
"""Bits of a weight by name of the file's quantisation and role of the matrix."""


def stored_as(mix: str, role: str) -> str:
    """The type of a matrix: that of the mix, with its role where that differs."""
    bits = MIXES.get(mix, {})
    return f"{mix}.{role}" if bits and bits.get(role) != bits[""] else mix


def nearest_mix(stored: Mapping[tuple[str, str], int]) -> tuple[str, float]:
    """The mix that is most like a file, and by how many bits a weight of it differs.

    Args:
        stored: Weights of the layers by tensor (`ffn_down`, …) and kind of block.
    """
    known = {name.lower(): bits for name, bits in BLOCKS.items()} | OTHER_BLOCKS
    weights: dict[str, float] = {}
    bits: dict[str, float] = {}
    for (tensor, kind), count in stored.items():
        role = PARTS.get(tensor, "")
        weights[role] = weights.get(role, 0.0) + count
        bits[role] = bits.get(role, 0.0) + count * known.get(kind.lower(), 16.0)

    usual = max(stored, key=lambda part: stored[part])[1].lower()

    def apart(mix: str) -> tuple[float, bool]:
        off = (abs(bits[role] - n * MIXES[mix][role]) for role, n in weights.items())
        each = sum(off) / sum(weights.values())
        return round(each, 3), not mix.lower().startswith(usual)

    best = min(MIXES, key=apart)
    return best, apart(best)[0]


GGUF_BYTES: Mapping[str, float] = {
    stored_as(mix, role): bits / 8
    for mix, roles in MIXES.items()
    for role, bits in roles.items()
}
"""Bytes of a stored weight by type."""
