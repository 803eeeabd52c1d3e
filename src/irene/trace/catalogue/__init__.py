"""The catalogue: configs of models people use, as small data files.

One JSON file per model lies beside this module; `Entry` says what is in it. Reading the
catalogue needs neither torch nor transformers.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from itertools import accumulate, chain
from typing import Any

__all__ = ["Entry", "entries", "find", "nearest", "search"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A model whose config we know.

    Attributes:
        name: Short name, as people say it.
        family: Models that share an architecture.
        kind: `encoder`, `decoder`, `encoder-decoder`, `vision`, `audio`, `multimodal`.
        hub_id: Hugging Face id.
        aliases: Other names with the same shapes.
        auto_class: The transformers auto class that builds it.
        params: Published number of parameters.
        params_source: Where that number is published.
        active_params: Published parameters per token of a mixture of experts.
        source: Where the config is published.
        config: Fields of the config that set shapes and ops.
        params_class: The class that `params` counts, where it is not `auto_class`.
        params_not_built: Published parameters that transformers does not build, such
            as an output layer that it ties to the embedding.
    """

    name: str
    family: str
    kind: str
    hub_id: str
    aliases: tuple[str, ...]
    auto_class: str
    params: int
    params_source: str
    active_params: int | None
    source: str
    config: Mapping[str, Any]
    params_class: str | None = None
    params_not_built: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Its fields, which are JSON-ready as they are."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@cache
def entries() -> Mapping[str, Entry]:
    """All entries by name, in alphabetical order."""
    found = {}
    for file in resources.files(__name__).iterdir():
        if file.name.endswith(".json"):
            fields = json.loads(file.read_text(encoding="utf-8"))
            fields["aliases"] = tuple(fields["aliases"])
            fields["auto_class"] = fields.pop("class")
            entry = Entry(**fields)
            found[entry.name] = entry
    return dict(sorted(found.items()))


@cache
def _by_any_name() -> Mapping[str, Entry]:
    names: dict[str, Entry] = {}
    for entry in entries().values():
        for name in (entry.name, entry.hub_id, *entry.aliases):
            names.setdefault(name.lower(), entry)
            names.setdefault(name.rpartition("/")[2].lower(), entry)
    return names | {name.lower(): entry for name, entry in entries().items()}


QUANTIZED: Mapping[str, Mapping[str, Any]] = {
    "-fp8": {"quant_method": "fp8"},
    "-fp8-dynamic": {"quant_method": "fp8"},
    "-awq": {"quant_method": "awq", "bits": 4},
    "-awq-int4": {"quant_method": "awq", "bits": 4},
    "-gptq-int4": {"quant_method": "gptq", "bits": 4},
    "-gptq-int8": {"quant_method": "gptq", "bits": 8},
    "-quantized.w4a16": {"quant_method": "gptq", "bits": 4},
    "-quantized.w8a8": {"quant_method": "gptq", "bits": 8},
    "-bnb-4bit": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "-nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "-fp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
}
"""How names of models end that are published with quantised weights, by whomever."""
BLOCKS: Mapping[str, tuple[int, int]] = {"qwen": (128, 128)}
"""Families that publish fp8 weights with a scale for each block; others do with one for
each channel or matrix."""
LONGEST, LIKELY = 100, 100
"""Letters of a name that is not known, and names with which it is compared."""
TUNED = re.compile(r"-(base|chat|hf|instruct|it|pt|thinking)(-\d{4})?$")
"""How names of decoders end whose shapes are those of the name without it."""


def find(name: str) -> Entry | None:
    """The entry of that name, hub id or alias, whatever the case.

    A name that ends in `-Instruct`, `-Chat` and the like is that of a model with the
    same shapes; one in `-FP8`, `-AWQ` of the same with quantised weights.
    """
    wanted = name.lower()
    entry = _tuned(wanted)
    ending = next((each for each in QUANTIZED if wanted.endswith(each)), "")
    if entry is not None or not ending:
        return entry
    plain = wanted.removesuffix(ending)
    other = _tuned(plain) or _tuned(plain.rpartition("/")[2])
    if other is None or other.kind != "decoder":
        return None
    stored = dict(QUANTIZED[ending])
    if other.family in BLOCKS and ending == "-fp8":
        stored["weight_block_size"] = list(BLOCKS[other.family])
    config = {**other.config, "quantization_config": stored}
    return replace(other, name=f"{other.name}{ending}", hub_id=name, config=config)


def _tuned(name: str) -> Entry | None:
    """The entry of a name, or of the decoder that it is tuned from."""
    known = _by_any_name()
    entry = known.get(name) or known.get(TUNED.sub("", name))
    is_other = entry is not None and name not in known and entry.kind != "decoder"
    return None if is_other else entry


def nearest(name: str, count: int = 5) -> list[str]:
    """Names in the catalogue that look like this one, the nearest first.

    Of those that it begins, the smallest of a series is before the others.
    """
    wanted = name.rpartition("/")[2].lower()[:LONGEST]
    names = _by_any_name()
    begun = sorted(
        _beginnings().get(_BREAK.sub("", wanted), ()),
        key=lambda each: (_SIZE.sub("", each), names[each].params),
    )
    shared = Counter(chain.from_iterable(_by_pair().get(p, ()) for p in _pairs(wanted)))
    likely = [each for each, _ in shared.most_common(LIKELY)]  # to compare all is slow
    close = begun + difflib.get_close_matches(wanted, likely, n=4 * count, cutoff=0.6)
    return list(dict.fromkeys(names[match].name for match in close))[:count]


def search(words: str = "") -> list[Entry]:
    """Entries in whose names, family or kind every word occurs, by family and size."""
    wanted = words.lower().split()
    found = [entry for entry in entries().values() if _matches(entry, wanted)]
    return sorted(found, key=lambda entry: (entry.family, entry.params, entry.name))


_SIZE = re.compile(r"\d[\d.]*[bm]\b")
_BREAK = re.compile(r"[-_.\s]")


@cache
def _beginnings() -> dict[str, list[str]]:
    """Names by the whole words that begin them: `llama3` begins `llama-3-8b`."""
    found: dict[str, list[str]] = {}
    for name in _by_any_name():
        for start in set(accumulate(_BREAK.split(name)[:-1])):
            found.setdefault(start, []).append(name)
    return found


@cache
def _by_pair() -> dict[str, list[str]]:
    """Names by the pairs of letters in them."""
    found: dict[str, list[str]] = {}
    for name in _by_any_name():
        for pair in _pairs(name):
            found.setdefault(pair, []).append(name)
    return found


def _pairs(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(len(name) - 1)}


def _matches(entry: Entry, words: list[str]) -> bool:
    names = (entry.name, entry.family, entry.kind, entry.hub_id, *entry.aliases)
    text = " ".join(names).lower()
    return all(word in text for word in words)
