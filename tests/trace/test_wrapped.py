"""What users of other libraries have in hand: real packages where they are there."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import irene
from irene.errors import UsageError

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = BertConfig(**SMALL, intermediate_size=64, vocab_size=99)
LLAMA = LlamaConfig(**SMALL, intermediate_size=64, vocab_size=99, num_key_value_heads=2)
SIZE = {"batch_size": 2, "seq_len": 16}
RANK = 4


def test_a_pipeline_is_its_model():
    class Pipeline:
        model = BertModel(BERT)

    tree = irene.predict(Pipeline(), **SIZE)
    assert tree.total().flops == irene.trace(BertModel(BERT), **SIZE).total().flops
    assert irene.trace(Pipeline(), **SIZE).root.op == "BertModel"


def test_a_pipeline_of_several_models_names_them():
    class Pipeline:
        def __init__(self) -> None:
            self.components = {"scheduler": object(), "unet": nn.Linear(2, 2)}

    with pytest.raises(UsageError, match=r"several models \(unet\): .*pipeline\.unet"):
        irene.predict(Pipeline())


def test_lora_adds_its_products_and_nothing_else():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    plain = irene.trace(LlamaForCausalLM(LLAMA), **SIZE)
    config = peft.LoraConfig(r=RANK, target_modules=["q_proj", "v_proj"])
    tree = irene.trace(peft.get_peft_model(LlamaForCausalLM(LLAMA), config), **SIZE)
    lora = [node for node in tree.nodes("ml") if "lora_" in node.path]
    tokens, layers = 2 * 16, 2
    products = layers * 2 * 2 * (2 * tokens * 32 * RANK)
    assert sum(node.flops for node in lora) == products
    scaled = layers * 2 * 2 * tokens * 32  # a product and a sum for each element
    assert tree.total().flops == plain.total().flops + products + scaled
    assert {n.path for n in plain.nodes("module")} <= {n.path for n in tree.nodes()}


def test_lora_trains_for_less():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(r=RANK, target_modules=["q_proj"])
    adapted = peft.get_peft_model(LlamaForCausalLM(LLAMA), config)
    flops = [
        irene.trace(model, phase="train", **SIZE).total().flops
        for model in (adapted, LlamaForCausalLM(LLAMA))
    ]
    assert flops[0] < 0.8 * flops[1]  # no gradients of weights that are frozen


class Linear8bitLt(nn.Linear):
    """Stored as bytes, with a forward that no meta device runs, as the real one."""

    def __init__(self, wide: int) -> None:
        super().__init__(64, 64, dtype=torch.bfloat16)
        stored = torch.zeros(64 * 64 // wide, dtype=torch.uint8)
        self.weight = nn.Parameter(stored, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.weight.numpy()).to(x)


@pytest.mark.parametrize("wide", [1, 2])
def test_quantised_layers_are_traced_as_what_they_run(wide):
    x = torch.zeros(4, 64, dtype=torch.bfloat16)
    model = nn.Sequential(Linear8bitLt(wide), nn.ReLU())
    tree = irene.trace(model, x)
    plain = irene.trace(
        nn.Sequential(nn.Linear(64, 64, dtype=torch.bfloat16), nn.ReLU()), x
    )
    assert tree.total().flops == plain.total().flops
    turned = 64 * 64 // wide + 2 * 64 * 64  # read as stored, written as bf16
    assert tree.total().bytes == plain.total().bytes + turned
    assert any("weights of Linear8bitLt are read as they" in n for n in tree.notes)
    assert "forward" not in vars(model[0])
    assert irene.predict(model, x).energy_of(0).joules > 0


def test_bitsandbytes_reads_as_many_bits():
    bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    x = torch.zeros(4, 64, dtype=torch.bfloat16)
    four = bnb.nn.Linear4bit(64, 64, bias=False, compute_dtype=torch.bfloat16)
    eight = bnb.nn.Linear8bitLt(64, 64, False, has_fp16_weights=False)
    sizes = [
        irene.trace(nn.Sequential(m).to("cpu"), x).total().bytes for m in (four, eight)
    ]
    assert sizes[1] - sizes[0] == 64 * 64 // 2


def test_torchao_is_traced_as_it_runs():
    ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    x = torch.zeros(4, 64, dtype=torch.bfloat16)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)).to(torch.bfloat16)
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    found = [irene.trace(model, x, device=device) for device in ("meta", "cpu")]
    assert found[0].total() == found[1].total()
    reads = [node.bytes_read for node in found[0].nodes("math")]
    assert 64 * 64 in reads  # a byte for each weight


@pytest.mark.filterwarnings("ignore")
def test_sentence_transformers_get_their_features(tmp_path):
    library = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    from transformers import BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "energy"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertModel(BERT).save_pretrained(tmp_path)
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    models = import_module("sentence_transformers.models")
    encoder = library.SentenceTransformer(
        modules=[models.Transformer(str(tmp_path)), models.Pooling(32)], device="cpu"
    )
    tree = irene.predict(encoder, **SIZE)
    assert (tree.spec.batch_size, tree.spec.seq_len) == (2, 16)
    plain = irene.trace(BertModel(BERT, add_pooling_layer=False), **SIZE)
    pooled = [node for node in tree.root.children if node.name == "1"]
    assert tree.total().flops > plain.total().flops
    assert pooled


@pytest.mark.filterwarnings("ignore")
def test_parts_of_diffusers_are_predicted_with_their_inputs():
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    unet = diffusers.UNet2DModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1,
        block_out_channels=(32,), down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",), norm_num_groups=8,
    )  # fmt: skip
    inputs = {"sample": torch.zeros(1, 4, 16, 16), "timestep": torch.tensor(1)}
    tree = irene.predict(unet, inputs)
    assert tree.energy_of(0).joules > 0
    assert any(node.op == "Conv2d" for node in tree.nodes("ml"))
