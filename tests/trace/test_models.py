from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForImageClassification, BertConfig, LevitConfig

import irene
from irene.errors import ConfigError
from irene.spec import RunSpec
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import build, config_of, resolve

BERT = {
    "model_type": "bert", "num_hidden_layers": 1, "hidden_size": 24,
    "num_attention_heads": 2, "intermediate_size": 48,
}  # fmt: skip
NAME = AutoModelForImageClassification.__name__
CODE = dict.fromkeys((NAME, "AutoModel"), ".--modeling_mine.Mine")
"""In the folder that the user stands in."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with code, a user who says yes to everything, and what the code does."""
    done = tmp_path / "done"
    (tmp_path / "modeling_mine.py").write_text(f"open({str(done)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    modules = "transformers.dynamic_module_utils.HF_MODULES_CACHE"
    monkeypatch.setattr(modules, str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("builtins.input", lambda prompt="": "y")
    return done


@pytest.mark.parametrize(
    "config",
    [
        {**BERT, "architectures": [NAME], "auto_map": CODE},
        {**BERT, "auto_map": CODE},
        {
            "model_type": "llava",
            "text_config": {**BERT, "auto_map": CODE},
            "vision_config": {**BERT, "auto_map": CODE},
        },
    ],
)
def test_code_that_a_config_names_is_never_run(
    eager: Path, config: dict[str, Any]
) -> None:
    path = eager.with_name("config.json")
    path.write_text(json.dumps(config))
    with suppress(ConfigError):  # transformers may have no such model
        irene.trace(path, batch_size=1, seq_len=8)
    assert not eager.exists()


def test_code_that_a_config_object_names_is_never_run(eager: Path) -> None:
    config = BertConfig(**{k: v for k, v in BERT.items() if k != "model_type"})
    config.auto_map = CODE
    config._name_or_path = str(eager.parent)
    irene.trace(config, batch_size=1, seq_len=8)
    assert not eager.exists()
    assert config.auto_map == CODE  # the user's own is as it was


def test_code_of_a_config_that_was_fetched_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Transformers asks the hub for a backbone that a config names."""

    class Hub:
        def repo_exists(self, _: str) -> bool:
            return True

    monkeypatch.setattr("transformers.backbone_utils.hf_api", Hub)
    fetched = {"model_type": "resnet", "auto_map": CODE}
    monkeypatch.setattr(
        "transformers.PretrainedConfig.get_config_dict", lambda _: (fetched, {})
    )
    fields = {"backbone": "somebody/theirs", "use_timm_backbone": False}
    config = config_of("detr", fields)
    assert config.backbone_config.model_type == "resnet"
    assert not hasattr(config.backbone_config, "auto_map")


@pytest.mark.parametrize("wrong", [[1], {"a": 1}, 1e308, "hub", "load"])
def test_what_is_no_dtype_is_told(wrong: object) -> None:
    with pytest.raises(ConfigError, match="no dtype"):
        config_of("bert", {"torch_dtype": wrong})


def test_building_leaves_a_config_as_it_is():
    resolved = resolve(LevitConfig(), DEFAULT_LIMITS)
    before = resolved.digest
    build(resolved, RunSpec(""))
    assert resolved.digest == before
