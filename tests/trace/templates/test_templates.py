"""Trees from templates are those of traces, at every size, to the last number."""

from __future__ import annotations

import json
import logging
import resource
from collections import Counter
from pathlib import Path

import pytest
from transformers import (
    AutoformerConfig,
    BertConfig,
    BigBirdConfig,
    CanineConfig,
    CLIPConfig,
    FNetConfig,
    Idefics2Config,
    LevitConfig,
    LlamaConfig,
    LongformerConfig,
    MixtralConfig,
    MusicgenConfig,
    Siglip2Config,
    T5Config,
)
from transformers import PretrainedConfig as Config

import irene
from irene.analyse.config_fields import changed, fields_of, read_config
from irene.errors import LimitError, SpecError, UsageError
from irene.spec import RunSpec
from irene.trace.catalogue import entries
from irene.trace.costs import COSTS, OpCost
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import resolve
from irene.trace.sources import config_key, locate
from irene.trace.templates import keeping, trees
from irene.trace.templates.fitting import NoTemplateError
from irene.trace.templates.making import make_template
from irene.trace.templates.template import Template, sizes_of
from irene.trace.tracer import trace_spec

WIDTHS = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 100,
}
BERT = BertConfig(**WIDTHS, max_position_embeddings=40)
LLAMA = LlamaConfig(**WIDTHS, num_key_value_heads=2, architectures=["LlamaForCausalLM"])
EXPERTS = MixtralConfig(
    **WIDTHS, num_local_experts=8, num_key_value_heads=2, sliding_window=None,
    architectures=["MixtralForCausalLM"],
)  # fmt: skip
FOURIER = FNetConfig(**{**WIDTHS, "hidden_size": 24}, max_position_embeddings=40)
PAIRS = CLIPConfig(
    text_config={**WIDTHS, "max_position_embeddings": 40},
    vision_config={**WIDTHS, "image_size": 32, "patch_size": 16},
    projection_dim=16,
)
PADDED = LongformerConfig(**WIDTHS, attention_window=512)
T5 = T5Config(d_model=32, d_ff=64, num_layers=4, num_heads=4, d_kv=8, vocab_size=100)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trees, "_ASKED", set())
    monkeypatch.setattr(trees, "_MADE", {})


SERIES = AutoformerConfig(
    prediction_length=6, context_length=12, lags_sequence=[1, 2], d_model=16,
    encoder_layers=3, decoder_layers=3, encoder_ffn_dim=8, decoder_ffn_dim=8,
)  # fmt: skip
REMEMBERS = LevitConfig(
    image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[1, 2, 2],
    depths=[2, 2, 4], key_dim=[8, 8, 8],
)  # fmt: skip
FIRST_BROADCASTS = Idefics2Config(
    image_token_id=90,
    vision_config={
        "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 28, "patch_size": 14,
    },
    perceiver_config={
        "hidden_size": 32, "resampler_n_latents": 4, "resampler_depth": 4,
        "resampler_n_heads": 2, "resampler_head_dim": 8, "num_key_value_heads": 1,
    },
    text_config={
        "model_type": "mistral", "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "vocab_size": 100,
    },
)  # fmt: skip
CHUNKS = CanineConfig(
    **{**WIDTHS, "num_hidden_layers": 3}, max_position_embeddings=600,
    local_transformer_stride=32,
)  # fmt: skip


_TEMPLATES: dict[str, Template] = {}


def made(config: Config, **run: str) -> Template:
    """The template of a run, as it is read again; made once for all tests."""
    key = f"{run} {config.to_json_string(use_diff=False)}"
    if key not in _TEMPLATES:
        spec = RunSpec.asked("", run)
        template = make_template(resolve(config, DEFAULT_LIMITS), spec)
        text = json.dumps(template.to_dict())
        _TEMPLATES[key] = Template.from_dict(json.loads(text))
    return _TEMPLATES[key]


@pytest.mark.parametrize(
    ("config", "run", "sizes"),
    [
        (BERT, {}, [(1, 9), (7, 33), (3, 40), (1, 40), (64, 2)]),
        (BERT, {"phase": "train", "attention": "sdpa"}, [(1, 17), (3, 31)]),
        (LLAMA, {"phase": "prefill", "dtype": "bf16"}, [(1, 300), (4, 1999)]),
        (LLAMA, {"phase": "decode", "attention": "sdpa"}, [(1, 7), (5, 1200)]),
        (EXPERTS, {}, [(1, 2), (1, 3), (2, 3), (9, 50)]),
        (EXPERTS, {"phase": "decode"}, [(1, 9), (2, 3), (3, 8), (9, 50)]),
        (FOURIER, {}, [(1, 12), (3, 31), (9, 39)]),
        (T5, {"phase": "forward"}, [(1, 12), (3, 50)]),
        (PADDED, {}, [(1, 12), (8, 128), (2, 510)]),
        (PAIRS, {}, [(1, 12), (2, 31), (9, 40), (50, 2)]),
        (SERIES, {}, [(1, 12), (5, 12), (17, 12), (40, 12)]),
        (REMEMBERS, {}, [(1, 12), (5, 12), (40, 12)]),
        (CHUNKS, {}, [(1, 64), (5, 64), (40, 128)]),
        (FIRST_BROADCASTS, {}, [(1, 40), (2, 40), (8, 33)]),
    ],
    ids=[
        "bert",
        "bert-train",
        "llama-prefill",
        "llama-decode",
        "experts",
        "experts-decode",
        "fourier",
        "t5",
        "padded-to-a-window",
        "every-text-with-every-image",
        "fourier-of-batches",
        "keeps-what-it-computed",
        "goes-through-chunks",
        "first-layer-of-batches-is-another",
    ],
)
def test_a_template_is_the_trace_at_every_size(config, run, sizes):
    template = made(config, **run)
    for batch, length in sizes:
        spec = RunSpec.asked("", {**run, "batch_size": batch, "seq_len": length})
        traced = trace_spec(spec, source=config)
        own = sizes_of(spec, template.axes)
        piece = template.piece(own)
        assert piece is not None
        told = {"spec": traced.spec, "provenance": traced.provenance}
        notes = (*template.reach.notes(spec), *piece.skeleton.notes)
        assert piece.at(own, **told, notes=notes).unfold() == traced
        assert template.config_digest == traced.spec.config_digest


def test_a_batch_of_one_token_is_left_to_a_trace():
    assert made(BERT).piece({"b": 2, "s": 1}) is None


def test_lengths_that_change_the_structure_have_a_piece_of_their_own():
    ends = {piece.where["s"] for piece in made(BERT).pieces}
    assert ends == {(2, 39), (40, 40)}  # at 40 all positions are taken, none cut off


def test_images_that_are_gone_through_one_by_one_have_pieces_by_batch():
    part = {**WIDTHS, "bos_token_id": None, "eos_token_id": None}
    looped = Siglip2Config(
        text_config={**part, "max_position_embeddings": 40},
        vision_config={**WIDTHS, "num_patches": 16, "patch_size": 4},
    )
    template = made(looped)
    assert {piece.where["b"] for piece in template.pieces} == {
        (n, n) for n in (1, 2, 4, 8)
    }
    assert template.piece({"b": 3, "s": 9}) is None
    for own in ({"b": 4, "s": 9}, {"b": 8, "s": 40}):
        spec = RunSpec("", batch_size=own["b"], seq_len=own["s"])
        traced = trace_spec(spec, source=looped)
        piece = template.piece(own)
        tree = piece.at(own, spec=traced.spec, provenance=traced.provenance)
        assert tree.unfold() == traced


def test_a_table_that_a_long_run_made_grow_is_that_of_the_run():
    text = {**T5.to_dict(), "num_layers": 1}
    audio = {"num_filters": 2, "upsampling_ratios": [2], "num_lstm_layers": 1}
    decoder = {**WIDTHS, "num_hidden_layers": 1, "ffn_dim": 64}
    decoder |= {"max_position_embeddings": 40, "pad_token_id": 1, "bos_token_id": 1}
    config = MusicgenConfig(
        text_encoder=text, audio_encoder={"model_type": "encodec", **audio},
        decoder=decoder,
        architectures=["MusicgenForConditionalGeneration"],
    )  # fmt: skip
    template = made(config)
    for length in (9, 40, 64):
        spec = RunSpec("", batch_size=2, seq_len=length)
        own = sizes_of(spec, template.axes)
        traced = trace_spec(spec, source=config)
        told = {"spec": traced.spec, "provenance": traced.provenance}
        tree = template.piece(own).at(own, **told, notes=traced.notes)
        assert tree.unfold() == traced


def test_lengths_that_are_gone_through_in_chunks_have_pieces_for_all_batches():
    template = made(CHUNKS)
    assert {p.where["s"] for p in template.pieces if p.where["b"] != (1, 1)} >= {
        (n, n) for n in (64, 128, 256)
    }
    assert template.piece({"b": 7, "s": 128}) is not None
    assert template.piece({"b": 7, "s": 131}) is None


def test_what_cannot_run_has_no_template():
    with pytest.raises(NoTemplateError, match="no KV cache"):
        made(BERT, phase="decode")


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("bert-l2-h128", {}),
        ("bert-l2-h128", {"attention": "sdpa", "dtype": "bf16"}),
        ("bert-l2-h128", {"dtype": "fp16"}),
        ("bert-l2-h128", {"phase": "train"}),
        ("t5-small", {}),
        ("gpt2", {}),
        ("vit-tiny-patch16-224", {}),
        ("pythia-14m", {"phase": "decode", "context_len": 77}),
        ("pythia-14m", {"phase": "prefill"}),
        ("fnet-base", {}),
        ("wav2vec2-base", {}),
    ],
    ids=str,
)
def test_templates_that_ship_are_the_traces(name, run):
    spec = RunSpec.asked(name, {"batch_size": 3, "seq_len": 50, **run})
    source = locate(name)
    variant = trees.variant_of(spec, source)
    assert keeping.shipped(name, config_key(source), variant) is not None
    assert trees.tree_from_template(spec).unfold() == trace_spec(spec)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-base-uncased", {"hidden_act": "relu"}),
        ("bert-base-uncased", {"num_hidden_layers": 8}),
        ("gpt2", {"activation_function": "gelu_pytorch_tanh"}),
    ],
    ids=str,
)
def test_templates_of_changed_configs_ship(name, changes, monkeypatch):
    monkeypatch.setattr(trees, "_make", None)
    spec = RunSpec.asked(name, {"batch_size": 3, "seq_len": 50})
    base = read_config(name, None, DEFAULT_LIMITS)
    spec = spec.chosen_as(model_class=base.model_class)
    source = changed(base, changes)
    tree = trees.tree_from_template(spec, source=source)
    assert tree.unfold() == trace_spec(spec, source=source.make())


def test_a_change_has_a_template_of_its_own(monkeypatch):
    spec = RunSpec("bert-l2-h128", batch_size=2, seq_len=9)
    base = read_config("bert-l2-h128", None, DEFAULT_LIMITS)
    for layers in (1, 2, 3):
        source = changed(base, {"num_hidden_layers": layers})
        tree = trees.tree_from_template(spec, source=source, make=True)
        assert tree.unfold() == trace_spec(spec, source=source.make())
    absurd = changed(base, {"num_hidden_layers": 1001})
    with pytest.raises(LimitError, match="num_hidden_layers=1,001"):
        trees.tree_from_template(spec, source=absurd)


@pytest.mark.parametrize("name", ["bert-l2-h128", "gpt2", "clip-vit-base-patch16"])
def test_configs_that_ship_are_those_of_transformers(name):
    found = keeping.shipped_config(name, config_key(locate(name)))
    config = resolve(name, DEFAULT_LIMITS).config
    assert found is not None
    assert list(found[:2]) == json.loads(json.dumps(fields_of(config)))
    assert keeping.shipped_config(name, "of another config") is None


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("bert-l2-h128", {"phase": "decode"}),
        ("deberta-base", {"dtype": "bf16"}),
    ],
    ids=str,
)
def test_what_cannot_run_is_refused_as_by_a_trace(name, run):
    spec = RunSpec.asked(name, run)
    with pytest.raises(UsageError) as quick:
        trees.tree_from_template(spec)
    with pytest.raises(type(quick.value)) as traced:
        trace_spec(spec)
    assert str(quick.value) == str(traced.value)


def test_nearly_all_models_ship_with_what_is_usual():
    for variant in ("forward/eager/fp32", "forward/sdpa/bf16"):
        models = [name for name in entries() if variant in keeping._model(name)]
        assert len(models) >= 0.99 * len(entries())


def test_the_docs_count_what_ships():
    found = Counter[tuple[str, str]]()
    for name in entries():
        for variant in keeping.shipped_fields(name):
            run, changes, _ = variant.partition("?")
            phase, _, setting = run.partition("/")
            found["changed configs" if changes else phase, setting] += 1
    page = Path(__file__).parents[3] / "docs" / "explanation" / "tracing.md"
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    [start] = [i for i, row in enumerate(rows) if row[0] == "phase"]
    told = {
        (row[0], setting): int(number)
        for row in rows[start + 2 : start + 7]
        for setting, number in zip(rows[start][1:], row[1:], strict=True)
    }
    assert {each: number for each, number in told.items() if number} == dict(found)


@pytest.mark.parametrize("damage", ["version", "cut", "block", "gone"])
def test_a_file_that_does_not_hold_is_left_aside(damage, monkeypatch, tmp_path):
    spec = RunSpec("bert-l2-h128", batch_size=2, seq_len=9)
    file = Path(keeping.__file__).parent / keeping.SHIPPED
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[100:]
    if damage == "block":
        data[int(data[:8], 16) + 8 :] = bytes(len(data) - int(data[:8], 16) - 8)
    if damage != "gone":
        (tmp_path / keeping.SHIPPED).write_bytes(data)
    if damage == "version":
        monkeypatch.setattr(keeping, "public_versions", lambda: ["1", "1"])
    monkeypatch.setattr(keeping.resources, "files", lambda _: tmp_path)
    caches = (keeping._archive, keeping._model, keeping._block, keeping._structure)
    for each in (*caches, keeping._shipped):
        each.cache_clear()
    try:
        assert trees.tree_from_template(spec) is None
        assert trees.tree_from_template(spec).unfold() == trace_spec(spec)  # made anew
    finally:
        for each in (*caches, keeping._shipped):
            each.cache_clear()


def test_predictions_are_equal_with_their_notes(monkeypatch):
    run = {"batch_size": 1, "on": "pc1", "seq_len": 20_000}
    quick = irene.predict("t5-small", **run)
    monkeypatch.setattr(trees, "tree_from_template", lambda *_, **__: None)
    assert irene.predict("t5-small", **run) == quick
    assert any("extrapolation" in note for note in quick.notes)


def test_a_length_is_cut_or_refused_as_by_a_trace():
    tree = trees.tree_from_template(RunSpec("clip-vit-base-patch16"))
    assert tree is None or tree.spec.seq_len == 77
    with pytest.raises(SpecError, match="at most 512 positions"):
        trees.tree_from_template(RunSpec("bert-base-uncased", seq_len=513))


def test_own_formulas_are_honoured(monkeypatch):
    monkeypatch.setitem(COSTS, "aten.tanh", lambda _: OpCost(10**9, 0, 0))
    assert trees.tree_from_template(RunSpec("bert-l2-h128")) is None
    assert irene.predict("bert-l2-h128", batch_size=2).total().flops > 10**9


def kept_files() -> list[Path]:
    return sorted(keeping.folder().glob("*.z"))


def test_who_asks_again_gets_a_template_that_is_kept(monkeypatch):
    spec = RunSpec("", batch_size=2, seq_len=9)
    assert trees.tree_from_template(spec, source=BERT) is None
    first = trees.tree_from_template(spec, source=BERT)
    assert first.unfold() == trace_spec(spec, source=BERT)
    monkeypatch.setattr(trees, "_MADE", {})  # as in a new process
    monkeypatch.setattr(trees, "_make", None)
    assert trees.tree_from_template(spec, source=BERT) == first


@pytest.mark.parametrize("damage", [b"", b"not a template", b"\0" * 40])
def test_what_is_damaged_is_thrown_away_and_made_anew(damage, monkeypatch):
    spec = RunSpec("", batch_size=2, seq_len=9)
    first = trees.tree_from_template(spec, source=BERT, make=True)
    [file] = kept_files()
    whole = file.read_bytes()
    file.write_bytes(damage or whole[:-9])
    monkeypatch.setattr(trees, "_MADE", {})
    assert trees.tree_from_template(spec, source=BERT, make=True) == first
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "foreign", [[], {}, "none", {"axes": "bs"}, {"axes": "b", "pieces": [[]]}]
)
def test_foreign_content_is_thrown_away_and_made_anew(foreign, monkeypatch):
    spec = RunSpec("", batch_size=2, seq_len=9)
    first = trees.tree_from_template(spec, source=BERT, make=True)
    [file] = kept_files()
    whole = file.read_bytes()
    keeping.Kept(file.stem).write(foreign)
    monkeypatch.setattr(trees, "_MADE", {})
    assert trees.tree_from_template(spec, source=BERT) == first
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_time_alone(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    spec = RunSpec("", batch_size=2, seq_len=9)
    assert trees.tree_from_template(spec, source=BERT, make=True) is not None


def test_a_full_disk_costs_time_alone():
    spec = RunSpec("", batch_size=2, seq_len=9)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        tree = trees.tree_from_template(spec, source=BERT, make=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tree.unfold() == trace_spec(spec, source=BERT)
    assert not kept_files()


def test_a_template_under_a_foreign_name_is_thrown_away(monkeypatch):
    spec = RunSpec("", batch_size=2, seq_len=9)
    trees.tree_from_template(spec, source=BERT, make=True)
    [file] = kept_files()
    trees.tree_from_template(spec, source=LLAMA, make=True)
    [other] = set(kept_files()) - {file}
    other.write_bytes(file.read_bytes())
    monkeypatch.setattr(trees, "_MADE", {})
    tree = trees.tree_from_template(spec, source=LLAMA, make=True)
    assert tree.unfold() == trace_spec(spec, source=LLAMA)


def test_of_other_versions_nothing_is_read(monkeypatch):
    keeping.Kept("a").write({"asked": True})
    assert keeping.Kept("a").read() == {"asked": True}
    monkeypatch.setattr(
        keeping, "versions", lambda: {"torch": "1", "transformers": "1"}
    )
    assert keeping.Kept("a").read() is None
    assert not kept_files()


def test_the_folder_is_bounded(monkeypatch):
    monkeypatch.setattr(keeping, "MOST_BYTES", 500)
    for number in range(9):
        keeping.Kept(str(number)).write({"asked": True})
    assert 0 < sum(file.stat().st_size for file in kept_files()) <= 500


def test_what_transformers_advises_at_every_size_that_is_tried_is_not_shown():
    class Advice(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    said: list[str] = []
    logger, advice = logging.getLogger("transformers"), Advice()
    config = BigBirdConfig(  # it tells of every length that it pads
        vocab_size=99, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=1, block_size=4, num_random_blocks=1,
        max_position_embeddings=64,
    )  # fmt: skip
    logger.addHandler(advice)
    try:
        make_template(resolve(config, DEFAULT_LIMITS), RunSpec("bigbird"))
        assert not said
    finally:
        logger.removeHandler(advice)
