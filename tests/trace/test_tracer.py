from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import pytest
import torch
import transformers
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    DINOv3ViTConfig,
    LlamaConfig,
    MixtralConfig,
)

import irene
from irene.errors import SpecError, TraceError
from irene.trace.models import TORCH_DTYPES
from irene.tree import ModelTree
from irene.tree.headline import run_words

BERT = BertConfig(
    num_hidden_layers=3, hidden_size=32, intermediate_size=64, num_attention_heads=4
)
LLAMA = LlamaConfig(
    num_hidden_layers=2,
    hidden_size=32,
    intermediate_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=100,
    architectures=["LlamaForCausalLM"],
)


def test_levels_and_paths_of_bert():
    tree = irene.trace(BERT, batch_size=2, seq_len=16)
    assert (tree.root.kind, tree.root.op) == ("model", "BertModel")
    query = tree.find("encoder.layer.1.attention.self.query")
    assert (query.kind, query.op, query.params) == ("ml", "Linear", 32 * 33)
    assert (query.inputs, query.outputs) == (((2, 16, 32),), ((2, 16, 32),))
    assert query.dtype == "fp32"
    assert [leaf.kind for leaf in query.children] == ["math"] * len(query.children)
    attention = tree.find("encoder.layer.1.attention.self")
    functions = [node.op for node in attention.children]
    for op in ("matmul", "softmax", "transpose"):
        assert op in functions
    output = tree.find("encoder.layer.1.output")
    assert [n.op for n in output.children] == ["Linear", "Dropout", "add", "LayerNorm"]


def test_equal_layers_fold():
    tree = irene.trace(BERT).fold()
    layer = tree.find("encoder.layer.0")
    assert (layer.count, layer.members[-1]) == (3, "layer.2")
    assert tree.unfold() == irene.trace(BERT)


def test_a_config_is_not_changed_and_gives_the_same_spec_again():
    config = BertConfig(num_hidden_layers=1, hidden_size=32, num_attention_heads=4)
    before = config.to_dict()
    first = irene.trace(config, seq_len=8)
    irene.trace(config, seq_len=8, dtype="bf16", attention="sdpa")
    assert config.to_dict() == before
    assert irene.trace(config, seq_len=8).spec == first.spec


def test_a_shared_layer_is_one_node_per_call():
    tree = irene.trace("albert-base-v2", seq_len=8)
    path = "encoder.albert_layer_groups.0.albert_layers.0"
    calls = [node.call for node in tree.nodes() if node.path == path]
    assert calls == list(range(1, 13))
    queries = [n for n in tree.nodes() if n.path == f"{path}.attention.query"]
    assert [n.call for n in queries] == list(range(1, 13))
    assert tree.by_module()[path].calls == 12
    assert tree.root.params == 11_683_584  # shared weights count once


def test_meta_and_real_tensors_give_the_same_tree():
    for attention in ("eager", "sdpa"):
        meta = irene.trace(BERT, batch_size=2, seq_len=16, attention=attention)
        real = irene.trace(
            BERT, batch_size=2, seq_len=16, attention=attention, device="cpu"
        )
        assert meta.to_dict()["tree"] == real.to_dict()["tree"]


@pytest.mark.parametrize(
    ("given", "length", "words"),
    [
        (torch.zeros(8, 16, dtype=torch.long), 16, "batch 8 · length 16 ·"),
        (torch.zeros(8, 16, 64), 16, "batch 8 · length 16 ·"),
        (torch.zeros(8, 64), 1, "batch 8 · length 1* ·"),
        (torch.zeros(8, 3, 32, 32), 1, "batch 8 · fp32"),
    ],
)
def test_only_tokens_have_a_length(given, length, words):
    tree = irene.trace(torch.nn.Identity(), given)
    assert tree.spec.seq_len == length
    assert run_words(tree).startswith(words)


def test_a_model_with_weights_is_not_run_and_not_changed():
    model = BertModel(BERT)
    before = {name: id(p) for name, p in model.named_parameters()}
    ids = torch.zeros(2, 16, dtype=torch.long)
    tree = irene.trace(model, {"input_ids": ids})
    same = irene.trace(BERT, batch_size=2, seq_len=16, attention="sdpa")
    assert tree.total() == same.total()
    assert (tree.spec.batch_size, tree.spec.seq_len) == (2, 16)
    assert {name: id(p) for name, p in model.named_parameters()} == before
    assert all(p.device.type == "cpu" for p in model.parameters())
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_sdpa_is_one_primitive_with_the_work_of_its_two_products():
    eager = irene.trace(BERT, batch_size=2, seq_len=16).by_operator()
    fused = irene.trace(BERT, batch_size=2, seq_len=16, attention="sdpa").by_operator()
    assert fused["scaled_dot_product_attention"].flops == eager["matmul"].flops
    assert fused["scaled_dot_product_attention"].bytes < eager["matmul"].bytes


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_dtype(dtype):
    full = irene.trace(BERT, seq_len=16)
    half = irene.trace(BERT, seq_len=16, dtype=dtype)
    assert half.find("encoder.layer.0").dtype == dtype
    assert half.total().flops == full.total().flops
    assert half.total().bytes < 0.52 * full.total().bytes


def test_todays_primitives():
    tree = irene.trace(LLAMA, batch_size=1, seq_len=16, attention="sdpa")
    ops = tree.by_operator()
    for op in ("LlamaRMSNorm", "rotary_embedding", "scaled_dot_product_attention"):
        assert ops[op].bytes > 0, op
    assert tree.find("model.layers.0.mlp.act_fn").op == "SiLUActivation"
    gated = tree.find("model.layers.0.mlp")
    assert [n.op for n in gated.children].count("Linear") == 3
    rotary = tree.find("model.layers.0.self_attn.rotary_embedding")
    assert rotary.outputs == ((1, 4, 16, 8), (1, 2, 16, 8))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_mixture_of_experts_does_the_work_of_the_experts_chosen(dtype):
    config = MixtralConfig(
        num_hidden_layers=1,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=8,
        num_experts_per_tok=2,
        vocab_size=100,
    )
    tree = irene.trace(config, batch_size=1, seq_len=16, dtype=dtype)
    # 16 tokens × 2 experts, three products of 32×64
    assert tree.by_operator()["grouped_mm"].flops == 2 * 16 * 2 * 3 * 32 * 64
    assert any("experts" in note for note in tree.notes)


def test_decode_reads_one_token_and_the_whole_cache():
    steps = {
        context: irene.trace(
            LLAMA, batch_size=3, phase="decode", context_len=context, attention="sdpa"
        )
        for context in (64, 128, 192)
    }
    step = steps[64]
    assert step.find("model.layers.0.self_attn.q_proj").inputs == ((3, 1, 32),)
    attention = step.find("model.layers.0.self_attn.scaled_dot_product_attention")
    assert attention.inputs[1] == (3, 2, 65, 8)
    assert step.by_operator()["kv_cache_update"].bytes > 0
    # The cost of a step is affine in the context length.
    flops = [steps[n].total().flops for n in (64, 128, 192)]
    assert flops[2] - flops[1] == flops[1] - flops[0] > 0


def test_prefill_fills_a_cache_and_needs_one_row_of_logits():
    sizes = {"batch_size": 1, "seq_len": 32}
    forward = irene.trace(LLAMA, **sizes)
    prefill = irene.trace(LLAMA, phase="prefill", **sizes)
    assert forward.find("lm_head").outputs == ((1, 32, 100),)
    assert prefill.find("lm_head").outputs == ((1, 1, 100),)
    chunk = irene.trace(LLAMA, phase="prefill", context_len=64, **sizes)
    scores = chunk.find("model.layers.0.self_attn.matmul")
    assert scores.outputs == ((1, 4, 32, 96),)


def test_decode_of_an_encoder_decoder_does_not_run_the_encoder():
    tree = irene.trace("t5-small", seq_len=24, decoder_len=6, phase="decode")
    assert not any(node.path.startswith("encoder.block") for node in tree.nodes())
    full = irene.trace("t5-small", batch_size=1, seq_len=24, decoder_len=6)
    query = full.find("decoder.block.0.layer.0.SelfAttention.q")
    assert query.inputs == ((1, 6, 512),)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_an_encoder_has_no_cache(phase):
    with pytest.raises(SpecError, match="has no KV cache"):
        irene.trace(BERT, phase=phase)


def test_backward_hangs_under_its_module():
    tree = irene.trace(BERT, batch_size=2, seq_len=16, phase="train")
    query = tree.find("encoder.layer.2.attention.self.query")
    backward = tree.find("encoder.layer.2.attention.self.query.backward")
    assert backward.parent == query.parent
    assert backward.flops >= 2 * query.flops  # two products for one, and the bias
    matrix = [n for n in tree.nodes("math") if n.op in ("aten.mm", "aten.addmm")]
    assert sum(n.flops for n in matrix if ".backward" in n.path) == 2 * sum(
        n.flops for n in matrix if ".backward" not in n.path
    )
    unplaced = [n for n in tree.root.children if n.path == "backward"]
    assert unplaced == []


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_training_costs_three_forwards(attention):
    forward = irene.trace("bert-base-uncased", batch_size=2, attention=attention)
    train = irene.trace(
        "bert-base-uncased", batch_size=2, phase="train", attention=attention
    )
    assert 2.95 < train.total().flops / forward.total().flops < 3.1


def test_training_is_the_same_on_meta_and_on_the_cpu():
    meta = irene.trace(BERT, seq_len=16, phase="train")
    real = irene.trace(BERT, seq_len=16, phase="train", device="cpu")
    assert {op: c.flops for op, c in meta.by_operator().items()} == {
        op: c.flops for op, c in real.by_operator().items()
    }


def test_an_error_of_the_model_names_the_module_and_leaves_nothing_behind():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict(
                {"first": nn.Linear(4, 4), "bad": nn.Linear(5, 5)}
            )

        def forward(self, x):
            return self.inner["bad"](self.inner["first"](x))

    model = Broken()
    with pytest.raises(TraceError, match=r"Broken failed in inner\.bad: RuntimeError"):
        irene.trace(model, torch.zeros(2, 4))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.add(torch.ones(1), 1).item() == 2


def test_an_error_that_the_model_catches_does_not_bend_the_tree():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrong = nn.Linear(5, 5)
            self.right = nn.Linear(4, 4)

        def forward(self, x):
            try:
                return self.wrong(x)
            except RuntimeError:
                return self.right(x)

    tree = irene.trace(nn.Sequential(Careful(), nn.ReLU()), torch.zeros(2, 4))
    assert tree.find("1").parent == tree.root


def test_a_model_that_looks_at_its_data_is_run_for_real():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x) if self.fc(x).sum() > 1e9 else x

    tree = irene.trace(Branching(), torch.zeros(2, 4))
    assert tree.provenance["device"] == "cpu"
    assert "looks at its data" in tree.notes[0]


def test_a_plain_module_needs_inputs():
    with pytest.raises(SpecError, match="give its inputs"):
        irene.trace(nn.Linear(2, 2))


def test_several_inputs_and_outputs():
    lstm = nn.LSTM(4, 8, batch_first=True)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = lstm

        def forward(self, x, scale=None):
            out, (hidden, _) = self.lstm(x)
            return {"out": out * scale, "hidden": hidden}

    tree = irene.trace(Both(), {"x": torch.zeros(2, 3, 4), "scale": torch.ones(1)})
    assert tree.root.inputs == ((2, 3, 4), (1,))
    assert tree.root.outputs == ((2, 3, 8), (1, 2, 8))
    assert tree.find("lstm").outputs == ((2, 3, 8), (1, 2, 8), (1, 2, 8))


def test_a_traced_tree_survives_json():
    tree = irene.trace(LLAMA, seq_len=8, phase="decode")
    assert ModelTree.from_json(tree.to_json()) == tree
    assert tree.spec.config_digest is not None
    assert tree.provenance["class"] == "LlamaForCausalLM"


def test_another_class_of_the_same_config():
    tree = irene.trace(BERT, model_class="BertForSequenceClassification")
    assert tree.root.op == "BertForSequenceClassification"
    assert tree.find("classifier").op == "Linear"


SMALL = {"vocab_size": 100, "max_position_embeddings": 64}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_what_does_not_run_in_a_dtype_is_said_to_be_so(dtype):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.DebertaConfig(
        **SMALL, **sizes, relative_attention=True, pos_att_type=["c2p", "p2c"]
    )
    real = transformers.AutoModel.from_config(config, dtype=TORCH_DTYPES[dtype]).eval()
    with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
        real(input_ids=torch.ones(1, 4, dtype=torch.long), attention_mask=None)
    with pytest.raises(TraceError, match=rf"does not run in {dtype}, in encoder.*fp32"):
        irene.trace(config, seq_len=4, dtype=dtype)
    assert irene.trace(config, seq_len=4).total().flops > 0


def test_numbers_are_finite_so_that_fp16_needs_no_real_run():
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(**SMALL, **sizes, **heads)
    tree = irene.trace(config, seq_len=4, dtype="fp16")
    assert (tree.provenance["device"], tree.notes) == ("meta", ())
    real = irene.trace(config, seq_len=4, dtype="fp16", device="cpu")
    assert tree.total().flops == real.total().flops


def test_experts_after_cached_tokens_need_no_data() -> None:
    config = MixtralConfig(
        hidden_size=32, intermediate_size=16, num_hidden_layers=1, vocab_size=50,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=4,
    )  # fmt: skip
    run = {"phase": "decode", "context_len": 6, "model_class": "AutoModelForCausalLM"}
    tree = irene.trace(config, **run)  # type: ignore[arg-type]
    assert tree.total().flops > 0


def test_what_a_class_remembers_of_an_earlier_run_changes_no_trace():
    class Remembering(nn.Module):
        @staticmethod
        @lru_cache
        def places(length):
            return torch.arange(length) * 2

        def forward(self, x):
            return x + self.places(x.shape[-1])

    first, second = (irene.trace(Remembering(), torch.zeros(2, 4)) for _ in range(2))
    assert first.to_json() == second.to_json()
    assert "arange" in first.by_operator()


def test_what_a_models_file_remembers_of_a_run_changes_no_trace():
    config = DINOv3ViTConfig(  # its positions are kept by a function beside its classes
        hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, image_size=32,
    )  # fmt: skip
    first, second = (irene.trace(config, batch_size=2) for _ in range(2))
    assert first == second


def test_scripted_functions_are_traced_alike_however_often_they_ran():
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    config = transformers.DebertaV2Config(
        **SMALL, **sizes, num_hidden_layers=1, position_buckets=8,
        relative_attention=True, pos_att_type=["c2p", "p2c"],
    )  # fmt: skip
    first = irene.trace(config, seq_len=4, phase="train")
    model = transformers.AutoModel.from_config(config).train()
    for _ in range(3):  # torch.jit rewrites a function once it has seen it run
        model(input_ids=torch.ones(2, 4, dtype=torch.long))
    assert irene.trace(config, seq_len=4, phase="train") == first
    assert torch._C._get_graph_executor_optimize()


def test_a_step_of_training_leaves_nothing_to_chance():
    class Chancy(nn.Module):  # as wav2vec2 skips layers and masks what it hears
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(9, 9) for _ in range(4))
            self.layerdrop = 0.5

        def forward(self, x):
            for layer in self.layers:
                if torch.rand([]) >= self.layerdrop:
                    x = layer(x)
            return x[:, : np.random.randint(1, 9)] * random.randint(1, 9)

    def drawn():
        return random.random(), np.random.random(), torch.rand([]).item()

    model = Chancy()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = drawn()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    trees = [irene.trace(model, torch.zeros(2, 9), phase="train") for _ in range(5)]
    assert drawn() == expected
    assert all(tree == trees[0] for tree in trees)
    assert all(trees[0].find(f"layers.{i}").flops for i in range(4))
    assert "all layers run; a step skips up to 50% of some" in trees[0].notes
    assert model.layerdrop == 0.5
