"""What a question is asked of: a saved tree, or a model at a size on a machine.

`tree.json` is a saved tree. Everything else is a model, with its own size after an `@`:
`gpt2`, `gpt2@b16s256`, `gpt2@b16,s256,fp16,sdpa,decode,on=lab.json`; a serving with its
prompt and output: `qwen3-8b@b64p750o500,fp8,on=b200`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from irene.errors import UsageError
from irene.spec import Attention, DType, Phase, Quantization
from irene.trace.sources import files_count
from irene.tree import ModelTree, load

__all__ = ["Subject", "is_saved_tree", "parse_subject", "tree_of"]

SIZES = {
    "b": "batch_size", "s": "seq_len", "d": "decoder_len", "c": "context_len",
    "p": "prompt_len", "o": "output_len",
}  # fmt: skip
SIZE = re.compile(r"(?:[bsdcpo]\d+)+")
ONE_SIZE = re.compile(r"([bsdcpo])(\d+)")
WORDS = {
    **dict.fromkeys(get_args(DType), "dtype"),
    **dict.fromkeys(get_args(Attention), "attention"),
    **dict.fromkeys(get_args(Phase), "phase"),
    **dict.fromkeys([q for q in get_args(Quantization) if q != "bf16"], "quantization"),
}
HOW = (
    "write MODEL@b16s256 (b batch, s length, d decoder length, c context, "
    "p prompt, o output), with "
    f"{', '.join(WORDS)} or on=NAME after a comma"
)
TREE_SCHEMA = "irene.tree/"
LONGEST_LOOK = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """A saved tree, or a model to predict.

    Attributes:
        text: As it was written.
        model: Name, Hugging Face id or config of a model; path of a saved tree.
        is_tree: Whether `model` is a saved tree.
        on: Machine or file of a predictor.
        run: Arguments of `irene.trace`.
    """

    text: str
    model: str
    is_tree: bool
    on: str
    run: Mapping[str, Any]


def parse_subject(text: str, on: str = "pc1", **run: Any) -> Subject:
    """Read what somebody wrote.

    Args:
        text: `tree.json`, `MODEL` or `MODEL@SIZE,…`.
        on: Machine, unless the text names another.
        **run: Arguments of `irene.trace`, unless the text names others.

    Raises:
        UsageError: What follows the `@` is not a size or setting.
    """
    if is_saved_tree(text):
        return Subject(text, text, True, on, {})
    model, at, sizes = text.rpartition("@")
    if not at or (files_count() and Path(text).exists()):
        return Subject(text, text, False, on, dict(run))
    found = Subject(text, model, False, on, dict(run))
    for word in filter(None, sizes.split(",")):
        found = _with_word(found, word)
    return found


def _with_word(subject: Subject, word: str) -> Subject:
    run = dict(subject.run)
    if word.startswith("on="):
        return replace(subject, on=word.removeprefix("on="))
    if word in WORDS:
        run[WORDS[word]] = word
    elif SIZE.fullmatch(word):
        run |= {SIZES[letter]: int(n) for letter, n in ONE_SIZE.findall(word)}
        if "p" in word or "o" in word:
            run["phase"] = "generate"
    else:
        raise UsageError(f"{subject.text!r}: cannot read {word!r} after the @; {HOW}")
    return replace(subject, run=run)


def is_saved_tree(text: str) -> bool:
    """Whether a text is the path of a saved tree, and not that of a config."""
    path = Path(text)
    try:
        if not files_count() or not path.is_file():
            return False
        with path.open(encoding="utf-8") as file:
            start = file.read(LONGEST_LOOK)
    except (OSError, ValueError):
        return False
    if TREE_SCHEMA in start:
        return True
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    schema = fields.get("schema") if isinstance(fields, dict) else None
    return str(schema).startswith(TREE_SCHEMA)


def tree_of(subject: Subject) -> ModelTree:
    """The tree that is meant, with energy.

    Raises:
        UsageError: The model, size or machine is unknown, or the saved tree carries no
            energy.
    """
    if not subject.is_tree:
        from irene.predict.api import predict

        return predict(subject.model, on=subject.on, **subject.run)
    tree = load(subject.model)
    if tree.energy_of(0) is None:
        raise UsageError(
            f"{subject.model} carries no energy: it was traced, not predicted or "
            "measured; use `irene predict MODEL --out FILE`"
        )
    return tree
