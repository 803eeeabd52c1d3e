"""Configs as people publish them, beside those of the catalogue."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import config_of
from irene.trace.sources import config_key, locate
from irene.trace.templates.keeping import shipped_config, shipped_fields
from irene.trace.templates.trees import tree_from_template
from irene.trace.tracer import trace_spec
from irene.trace.twins import _plain, find_config, twin

ONE_OF_A_TYPE = {e.config["model_type"]: e for e in catalogue.entries().values()}
QWEN = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu",
    "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
    "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_mrope": False,
    "transformers_version": "4.40.1", "use_cache": True, "use_sliding_window": False,
    "vocab_size": 151936,
}  # fmt: skip
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
    "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1,
    "eos_token_id": 1, "initializer_factor": 1.0, "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512,
    "num_heads": 8, "num_layers": 6, "output_past": True, "pad_token_id": 0,
    "relative_attention_num_buckets": 32, "vocab_size": 32128,
    "task_specific_params": {"summarization": {"num_beams": 4}},
}  # fmt: skip
"""As they lie on the hub."""


def built(entry: catalogue.Entry) -> str:
    """The class that a config of the entry would name."""
    found = shipped_fields(entry.name).values()
    return next(variant["class"] for variant in found if "class" in variant)


def as_read(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers makes of it, as far as it shapes a model."""
    rest = {k: v for k, v in fields.items() if k not in ("model_type", "torch_dtype")}
    config = config_of(fields["model_type"], rest)
    found = _plain(config.to_dict())
    if "head_dim" in found and found["head_dim"] is None:
        found["head_dim"] = config.hidden_size // config.num_attention_heads
    return found


@pytest.mark.parametrize("kind", sorted(ONE_OF_A_TYPE))
def test_a_config_that_leaves_out_what_is_usual_is_read_the_same(kind: str) -> None:
    entry = ONE_OF_A_TYPE[kind]
    _, _, spare = shipped_config(entry.name, config_key(locate(entry.name)))
    fields = {name: v for name, v in entry.config.items() if name not in spare}
    beside = {"bos_token_id": 5, "torch_dtype": "float16", "_name_or_path": "mine"}
    found = twin({**fields, **beside, "architectures": [built(entry)]})
    assert found is not None
    assert found.config == entry.config
    assert as_read(fields) == as_read(entry.config)


@pytest.mark.parametrize(("fields", "name"), [(QWEN, "qwen2.5-0.5b"), (T5, "t5-small")])
def test_a_published_config_has_the_tree_of_its_twin(
    tmp_path: Path, fields: dict[str, Any], name: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    source = find_config(path, DEFAULT_LIMITS)
    assert (source.name, source.entry) == (str(path), catalogue.find(name))
    rest = {k: v for k, v in fields.items() if k != "model_type"}
    read = config_of(fields["model_type"], rest)  # as it is, without its twin
    spec = RunSpec(str(path), 2, 7)
    quick, real = tree_from_template(spec).unfold(), trace_spec(spec, source=read)
    assert quick == real.with_spec(quick.spec).with_provenance(quick.provenance)
    assert quick == trace_spec(spec)


@pytest.mark.parametrize(
    "change",
    [
        *({name: v + 1} for name, v in QWEN.items() if type(v) is int and "_id" not in
          name and name not in ("max_window_layers", "sliding_window")),
        {"rope_theta": 10000.0}, {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"use_sliding_window": True}, {"output_attentions": True},
        {"architectures": ["Qwen2Model"]}, {"architectures": None},
        {"architectures": 7}, {"rope_scaling": "linear"}, {"something": 1},
        {"torch_dtype": "nn"},
        {"quantization_config": {"quant_method": "fp8"}}, {"id2label": {"0": "a"}},
    ],
    ids=str,
)  # fmt: skip
def test_another_value_makes_it_another_model(change: dict[str, Any]) -> None:
    assert twin(QWEN) is not None
    assert twin({**QWEN, **change}) is None


def test_weights_of_a_known_model_are_predicted_without_torch(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    code = (
        "import sys, irene; tree = irene.predict(sys.argv[1], on='pc1');"
        "assert not {'torch', 'transformers'} & set(sys.modules); print(len(tree))"
    )
    words = [sys.executable, "-c", code, str(index)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
