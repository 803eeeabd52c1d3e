"""A config that says what one of the catalogue says is that model: without torch.

Published configs have fields that shape nothing, older names of fields, and leave out
what follows from the rest. Where all else is equal, the model of the catalogue is
meant, whose trees are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from irene.trace import catalogue
from irene.trace.limits import Limits
from irene.trace.sources import Source, config_key, locate
from irene.trace.templates.keeping import shipped_config, shipped_fields

SHAPES_NOTHING = frozenset(
    {
        "_name_or_path", "architectures", "cache_implementation", "id2label",
        "initializer_factor", "initializer_range", "label2id", "n_ctx", "output_past",
        "predict_special_tokens", "prefix", "rope_scaling", "router_aux_loss_coef",
        "task_specific_params", "transformers_version",
    }
)  # fmt: skip
"""Fields that say nothing of a model, or what other fields say."""
READ_ELSEWHERE = ("hidden_act", "n_positions", "sliding_window_size", "use_mrope")
"""Fields that count for models whose config has them, and are nothing for others."""
USUAL = {
    "num_labels": 2, "output_attentions": False, "output_hidden_states": False,
    "problem_type": None, "return_dict": True,
}  # fmt: skip
"""What transformers takes for every model where nobody says otherwise."""
DTYPES = (None, "auto", "bfloat16", "float16", "float32")
"""Of published weights; the run has its own."""
OF_WINDOWS = ("max_window_layers", "sliding_window")
"""What counts only where windows are used."""
OF_TOKENS = ("token_id", "token_ids")
OF_A_SUMMARY = "summary_"
ROPE = {
    "rope_theta": "rope_theta", "rotary_emb_base": "rope_theta",
    "partial_rotary_factor": "partial_rotary_factor",
    "rotary_pct": "partial_rotary_factor",
}  # fmt: skip
"""What stands in `rope_parameters` now."""
USUAL_ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def find_config(model: str | Path, limits: Limits) -> Source:
    """Where a config is, with its fields: those of its twin, if it has one.

    Raises:
        UnknownModelError: Nothing answers to that name.
        ConfigError: The config cannot be read.
    """
    source = locate(model)
    fields = source.read(limits)
    entry = source.entry or twin(fields)
    return replace(source, fields=entry.config if entry else fields, entry=entry)


def twin(fields: Mapping[str, Any]) -> catalogue.Entry | None:
    """The entry of the catalogue that a config is that of; None if of none."""
    given = _plain(fields)
    named = fields.get("architectures")
    for entry in catalogue.entries().values():
        own = _plain(entry.config)
        if (
            all(given.get(name, value) == value for name, value in own.items())
            and _is_built_alike(entry, named)
            and _is_same(entry, own, given)
        ):
            return entry
    return None


def _is_built_alike(entry: catalogue.Entry, named: Any) -> bool:
    """Whether the class that a config names is the one that is usually built."""
    if not isinstance(named, list) or not named:
        return named is None and entry.auto_class == "AutoModel"
    variants = shipped_fields(entry.name).items()
    return any(v.get("class") == named[0] for name, v in variants if "?" not in name)


def _is_same(
    entry: catalogue.Entry, own: Mapping[str, Any], given: Mapping[str, Any]
) -> bool:
    """Whether no field has another value than transformers reads in the entry."""
    found = shipped_config(entry.name, config_key(Source(entry.name, "", entry=entry)))
    if found is None:
        return False
    known, aliases, spare = found
    told = {aliases.get(name, name): value for name, value in given.items()}
    if told.get("use_sliding_window") is False:
        told = {name: v for name, v in told.items() if name not in OF_WINDOWS}
    whole = {**USUAL, **known, **own}
    return all(
        whole[name] == value if name in whole else name in READ_ELSEWHERE
        for name, value in told.items()
    ) and all(
        aliases.get(name, name) in told or name.partition(".")[0] in spare
        for name in own
    )


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that count, by the names they have now; those of parts as `part.field`."""
    found: dict[str, Any] = {}
    rope = {ROPE[name]: value for name, value in fields.items() if name in ROPE}
    scaling = fields.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        found["rope_scaling"] = scaling
    elif rope or scaling:
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        rest = {name: value for name, value in scaling.items() if name != "type"}
        found["rope_parameters"] = {**USUAL_ROPE, **rope, **rest, "rope_type": kind}
    if isinstance(fields.get("id2label"), Mapping):
        found["num_labels"] = len(fields["id2label"])
    for name, value in fields.items():
        if name.endswith("_config") and isinstance(value, Mapping):
            found |= {f"{name}.{key}": each for key, each in _plain(value).items()}
        elif not (
            name in SHAPES_NOTHING
            or name in ROPE
            or (name in ("dtype", "torch_dtype") and value in DTYPES)
            or name.endswith(OF_TOKENS)
            or name.startswith(OF_A_SUMMARY)
        ):
            found[name] = value
    return found
