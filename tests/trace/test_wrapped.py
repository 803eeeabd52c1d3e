"""What users of other libraries have in hand: real packages where they are there."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import irene
from irene.errors import SpecError, TraceError, UsageError

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


def test_a_scripted_module_is_refused_in_words():
    hidden = nn.Sequential(torch.jit.script(nn.Linear(4, 4)))
    with pytest.raises(SpecError, match="a scripted module does not show"):
        irene.trace(hidden, torch.zeros(2, 4))


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
    trees = [irene.trace(nn.Sequential(m).to("cpu"), x) for m in (four, eight)]
    sizes = [tree.total().bytes for tree in trees]
    assert sizes[1] - sizes[0] == 64 * 64 // 2
    assert [tree.root.params for tree in trees] == [64 * 64] * 2


def test_torchao_is_traced_as_it_runs():
    ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    x = torch.zeros(4, 64, dtype=torch.bfloat16)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)).to(torch.bfloat16)
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    found = [irene.trace(model, x, device=device) for device in ("meta", "cpu")]
    assert found[0].total() == found[1].total()
    reads = [node.bytes_read for node in found[0].nodes("math")]
    assert 64 * 64 in reads  # a byte for each weight


def sentence_encoder(folder):
    """A small encoder of sentence-transformers."""
    library = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    from transformers import BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "energy"]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words))
    BertModel(BERT).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    models = import_module("sentence_transformers.models")
    return library.SentenceTransformer(
        modules=[models.Transformer(str(folder)), models.Pooling(32)], device="cpu"
    )


@pytest.mark.filterwarnings("ignore")
def test_sentence_transformers_get_their_features(tmp_path):
    encoder = sentence_encoder(tmp_path)
    tree = irene.predict(encoder, **SIZE)
    assert (tree.spec.batch_size, tree.spec.seq_len) == (2, 16)
    plain = irene.trace(BertModel(BERT, add_pooling_layer=False), **SIZE)
    pooled = [node for node in tree.root.children if node.name == "1"]
    assert tree.total().flops > plain.total().flops
    assert pooled


TEXT, WIDTH = 77, 32


@pytest.fixture(scope="module")
def painter(tmp_path_factory):
    """A small pipeline that turns words into a picture."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    import json

    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    folder = tmp_path_factory.mktemp("words")
    words = ["<|startoftext|>", "<|endoftext|>", *"aeret", "t</w>", "e</w>", "a</w>"]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    blocks = {"norm_num_groups": 8, "block_out_channels": (32, 64)}
    return diffusers.StableDiffusionPipeline(
        unet=diffusers.UNet2DConditionModel(
            sample_size=16, layers_per_block=1, cross_attention_dim=WIDTH,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **blocks,
        ),
        vae=diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2, **blocks,
        ),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                hidden_size=WIDTH, intermediate_size=64, num_attention_heads=4,
                num_hidden_layers=2, vocab_size=99, bos_token_id=0, eos_token_id=1,
            )
        ),
        tokenizer=CLIPTokenizer.from_pretrained(folder, model_max_length=TEXT),
        scheduler=diffusers.DDIMScheduler(), safety_checker=None,
        feature_extractor=None, image_encoder=None, requires_safety_checker=False,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_of_diffusers_is_what_a_call_of_it_runs(painter):
    steps, before = 3, torch.random.get_rng_state()
    called = nn.Module.__call__
    asked = {"num_inference_steps": steps, "height": 32, "width": 32}
    tree = irene.predict(painter, {"prompt": ["a tree"] * 2, **asked})
    assert nn.Module.__call__ is called
    assert torch.equal(torch.random.get_rng_state(), before)
    parts = {node.path: node for node in tree.root.children}
    assert {path: node.count for path, node in parts.items()} == {
        "text_encoder": 2, "unet": steps, "vae.post_quant_conv": 1, "vae.decoder": 1,
    }  # fmt: skip
    told = torch.zeros(4, TEXT, WIDTH)  # two prompts, with and without their words
    inputs = {
        "sample": torch.zeros(4, 4, 16, 16), "timestep": torch.tensor(1),
        "encoder_hidden_states": told,
    }  # fmt: skip
    alone = irene.trace(painter.unet, inputs)
    assert parts["unet"].flops == alone.total().flops
    flops = sum(node.count * node.flops for node in parts.values())
    assert tree.total().flops == tree.unfold().total().flops == flops
    joules = sum(node.count * node.energy.joules for node in parts.values())
    assert tree.energy_of(0).joules == pytest.approx(joules, rel=1e-9)
    assert type(tree).from_json(tree.to_json()) == tree


@pytest.mark.filterwarnings("ignore")
def test_a_call_counts_what_the_pipeline_truly_runs(painter):
    from torch.utils.flop_counter import FlopCounterMode

    asked = {
        "prompt": "a tree", "num_inference_steps": 2, "height": 32, "width": 32,
        "output_type": "latent",
    }  # fmt: skip
    tree = irene.trace(painter, asked)
    with FlopCounterMode(display=False) as counter:
        painter(**asked)
    rows = zip(tree.nodes(), tree.multiplicity, strict=True)
    products = sum(  # it knows no attention of the CPU
        node.flops * times
        for node, times in rows
        if node.kind == "math" and ("mm" in node.op or "conv" in node.op)
    )
    assert products == counter.get_total_flops()


@pytest.mark.filterwarnings("ignore")
def test_pipelines_are_accounted_for_whole(painter):
    asked = {"prompt": "a tree", "num_inference_steps": 1, "height": 32, "width": 32}
    with irene.account(painter, meters=["estimate"], level="module") as ledger:
        painter(**asked)
    assert {"unet", "text_encoder", "vae.decoder"} <= {
        row.path for row in ledger.by_module()
    }


@pytest.mark.filterwarnings("ignore")
def test_what_a_pipeline_does_not_take_is_told(painter):
    with pytest.raises(TraceError, match="StableDiffusionPipeline failed when called"):
        irene.predict(painter, {"prompt": 5})
    with pytest.raises(UsageError, match="needs inputs as it is called with"):
        irene.predict(painter, torch.zeros(1))


@pytest.mark.parametrize(
    "name", ["resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0"]
)
def test_models_of_timm_have_the_products_that_they_run(name):
    from torch.utils.flop_counter import FlopCounterMode

    timm = pytest.importorskip("timm", reason="timm is not installed")
    model, images = timm.create_model(name).eval(), torch.zeros(2, 3, 224, 224)
    tree = irene.predict(model, images)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(images)
    products = sum(
        node.flops
        for node in tree.nodes("math")
        if "mm" in node.op or "conv" in node.op
    )
    assert products == counter.get_total_flops()
    assert tree.root.params == sum(weight.numel() for weight in model.parameters())
    assert tree.energy_of(0).joules > 0
