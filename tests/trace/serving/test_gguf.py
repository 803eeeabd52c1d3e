"""Quantisations of GGUF files: bits by role, as files on disk have them."""

from __future__ import annotations

import pytest

from irene.trace.serving.gguf import MIXES, nearest_mix, stored_as
from irene.trace.serving.tree import serving_tree
from irene.trace.serving.writer import WEIGHT_BYTES

SIZES = {
    ("llama-3.1-8b", "q4_K_M"): 4_920_757_726,
    ("phi-4", "q4_K_M"): 9_053_116_391,
    ("llama-3.2-3b", "q4_K_M"): 2_019_393_189,
    ("gemma-3-270m", "q8_0"): 291_554_930,
}
"""Bytes of files that Ollama has; the words of a vocabulary are in them, too."""


@pytest.mark.parametrize(("model", "kind"), SIZES)
def test_files_have_the_size_that_the_rule_gives(model: str, kind: str) -> None:
    tree = serving_tree(model, phase="decode", quantization=kind)
    total = 0.0
    for node in tree.nodes("ml"):
        each = WEIGHT_BYTES[node.dtype] if node.op in ("linear", "lm_head") else 0.0
        if node.op == "embedding":
            # Tied to the output layer, it is stored as that.
            head = next(n for n in tree.nodes("ml") if n.op == "lm_head")
            each = WEIGHT_BYTES[kind if head.params else stored_as(kind, "head")]
        total += node.params * int(tree.multiplicity[node.row]) * each
    assert total == pytest.approx(SIZES[model, kind], rel=0.025)


def test_a_file_is_known_by_the_blocks_of_its_tensors() -> None:
    """Half of the values and of the last matrices of q4_K_M have six bits."""
    wide, square = 4096 * 14336, 4096 * 4096
    file = {
        ("attn_q", "Q4_K"): 32 * square, ("attn_k", "Q4_K"): 8 * square,
        ("attn_v", "Q4_K"): 4 * square, ("attn_v", "Q6_K"): 4 * square,
        ("attn_output", "Q4_K"): 32 * square, ("ffn_up", "Q4_K"): 32 * wide,
        ("ffn_gate", "Q4_K"): 32 * wide, ("ffn_down", "Q4_K"): 16 * wide,
        ("ffn_down", "Q6_K"): 16 * wide,
    }  # fmt: skip
    name, off = nearest_mix(file)
    assert (name, round(off, 2)) == ("q4_K_M", 0.0)
    of_one = {tensor: sum(n for (t, _), n in file.items() if t == tensor)
              for tensor, _ in file}  # fmt: skip
    for kind in ("Q4_0", "Q6_K", "Q8_0"):
        assert nearest_mix({(t, kind): n for t, n in of_one.items()})[
            0
        ] == kind.replace("Q", "q")
    _, off = nearest_mix({(t, "IQ1_S"): n for t, n in of_one.items()})
    assert off > 1.0


def test_more_bits_take_more_bytes() -> None:
    names = ("q2_K", "q3_K_S", "q3_K_M", "q4_K_S", "q4_K_M", "q5_K_M", "q6_K", "q8_0")
    sums = [sum(MIXES[name].values()) for name in names]
    assert sums == sorted(sums)
