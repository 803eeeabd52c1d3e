"""Which kind of document somebody brought, and whether it holds together."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import ConfigError, FormatError, IreneError, LimitError
from irene.serve.uploads.bounded_json import parse, unpacked
from irene.trace.gguf_header import MAGIC
from irene.trace.limits import DEFAULT_LIMITS, OVERRIDE
from irene.trace.model_files import gguf_config
from irene.tree import ModelTree

LONGEST_NAME = 200
LONGEST_STRING = 10_000
MOST_NODES = 200_000
MOST_UNFOLDED = 2_000_000
LEDGER_SCHEMA = "irene.ledger/1"
SCHEMAS = "irene."
TEXTS = ("path", "kind", "op", "dtype")
WHOLE_NUMBERS = ("count", "params", "flops", "bytes_read", "bytes_written")
NUMBERS = ("energy_j", "low_j", "high_j", "own_j", "share")
SHAPES = ("inputs", "outputs")
FILES = ("auto_mappings.py", "configuration_auto.py")
"""Of transformers: which types it has."""


@dataclass(frozen=True, slots=True)
class Document:
    """A checked `config`, `tree` or `ledger`, as text."""

    kind: str
    body: bytes


def read_document(body: bytes, most_bytes: int) -> Document:
    """Check a config.json, a saved tree or a ledger; of a GGUF file, take the config.

    Args:
        body: The file, as it is or gzipped.
        most_bytes: What it may unpack to.

    Raises:
        FormatError: It is none of the three, or damaged.
        ConfigError: It is a config that transformers does not have.
        LimitError: It is too large, or asks for absurd sizes.
    """
    text = unpacked(body, most_bytes)
    if text.startswith(MAGIC):
        text = json.dumps(gguf_config(text, "the file")).encode()
    elif text[8:9] == b"{":  # after the length of the header
        raise FormatError("safetensors hold no config: bring the config.json beside it")
    value = parse(text)
    if not isinstance(value, dict):
        raise FormatError(
            f"this holds a {type(value).__name__}, not an object: send a config.json, "
            "a saved tree or a ledger"
        )
    if str(value.get("schema", "")).startswith(SCHEMAS):
        kind = _check_tree(value, text)
        return Document(kind, text)
    if "traceEvents" in value:
        raise FormatError(
            "a profiler's trace has times and no power: `irene account --trace FILE "
            "--power LOG --json > ledger.json` joins the two, and the ledger opens here"
        )
    _check_config(value, text)
    return Document("config", text)


def readable_name(name: str) -> str:
    """A name for people: one line, no control characters, not too long."""
    kept = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(kept.split())[:LONGEST_NAME]


def _check_config(fields: Mapping[str, Any], text: bytes) -> None:
    limits = DEFAULT_LIMITS
    if len(text) > limits.config_bytes:
        raise LimitError(
            f"{len(text):,} bytes are more than a config's {limits.config_bytes:,}"
        )
    _check_sizes(fields)
    if any(len(s) > LONGEST_STRING for s in _strings(fields)):
        raise LimitError(f"a string of more than {LONGEST_STRING:,} characters")
    model_type = fields.get("model_type")
    if not isinstance(model_type, str):
        raise ConfigError(
            "no model_type and no schema: this is neither a config.json of "
            "transformers nor a document of irene"
        )
    known = known_model_types()
    if known and model_type not in known:
        raise ConfigError(_unknown_type(model_type, fields, known))


def _check_sizes(fields: Mapping[str, Any]) -> None:
    try:
        DEFAULT_LIMITS.check_config(fields)
    except LimitError as error:  # a client cannot lift the limits of a server
        raise LimitError(str(error).removesuffix(f"; {OVERRIDE}")) from error


def _unknown_type(
    model_type: str, fields: Mapping[str, Any], known: frozenset[str]
) -> str:
    message = f"transformers has no model_type {model_type[:100]!r}"
    if "auto_map" in fields:
        return (
            f"{message}, and the config asks to run code of its own (auto_map), which "
            "this server never does; use a model type that transformers has built in"
        )
    near = difflib.get_close_matches(model_type[:100], known, n=3)
    return message + (f"; did you mean {', '.join(near)}?" if near else "")


def _strings(value: Any) -> list[str]:
    """All strings of a value that is not nested deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(s for inner in value.values() for s in _strings(inner))]
    if isinstance(value, list):
        return [s for inner in value for s in _strings(inner)]
    return []


def _check_tree(value: Mapping[str, Any], text: bytes) -> str:
    """Read a tree as `irene show` would, and see that it can be shown again."""
    _check_nodes(value.get("tree"))
    if not isinstance(value.get("spec"), dict | None):
        raise FormatError("corrupt tree: its spec is no object")
    try:
        tree = ModelTree.from_json(text)
        _check_counts(tree)
        json.dumps(tree.to_dict(), allow_nan=False)
    except IreneError:
        raise
    except (ValueError, TypeError, ArithmeticError, LookupError, MemoryError) as error:
        raise FormatError(f"corrupt tree: {type(error).__name__}: {error}") from error
    ledger = value.get("ledger")
    if ledger is None:
        return "tree"
    if not isinstance(ledger, dict) or ledger.get("schema") != LEDGER_SCHEMA:
        raise FormatError(f"its ledger is not {LEDGER_SCHEMA}")
    return "ledger"


def _check_nodes(root: Any) -> None:
    """Refuse trees that are small as text and huge when they are unfolded."""
    nodes, unfolded = 0, 0
    stack = [(root, 1)]
    while stack:
        node, times = stack.pop()
        if not isinstance(node, dict) or not isinstance(node.get("children"), list):
            raise FormatError("corrupt tree: a node is no object with children")
        _check_fields(node)
        nodes, times = nodes + 1, times * node["count"]
        unfolded += times
        if nodes > MOST_NODES or unfolded > MOST_UNFOLDED:
            raise LimitError(
                f"a tree of more than {MOST_NODES:,} nodes, or of more than "
                f"{MOST_UNFOLDED:,} when it is unfolded"
            )
        stack.extend((child, times) for child in node["children"])


def _check_fields(node: Mapping[str, Any]) -> None:
    """Refuse a node whose fields are of other types than ours."""
    wrong = [name for name in TEXTS if not isinstance(node.get(name), str)]
    wrong += [name for name in WHOLE_NUMBERS if type(node.get(name)) is not int]
    wrong += [
        name
        for name in NUMBERS
        if not isinstance(node.get(name), int | float | None)
        or isinstance(node.get(name), bool)
    ]
    wrong += [name for name in SHAPES if not _are_shapes(node.get(name))]
    if wrong or node["count"] < 1:
        name = (*wrong, "count")[0]
        shown = str(node.get(name))[:40]
        raise FormatError(f"corrupt tree: a node's {name} is {shown!r}")


def _are_shapes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(shape, list) and all(type(size) is int for size in shape)
        for shape in value
    )


def _check_counts(tree: ModelTree) -> None:
    for row, members in tree.members.items():
        if len(members) != tree.columns.count[row]:
            raise FormatError(
                f"corrupt tree: {len(members)} members of a node that counts "
                f"{tree.columns.count[row]}"
            )
    if tree.energy is not None and tree.energy.joules.dtype != np.float64:
        raise FormatError("corrupt tree: energies that are no numbers")


@cache
def known_model_types() -> frozenset[str]:
    """Values of `model_type` that transformers can build; empty if it has moved.

    Its tables are plain literals and read as text: to import it takes seconds and
    brings torch along, which the HTTP process must not have.
    """
    spec = util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    folder = Path(spec.submodule_search_locations[0]) / "models" / "auto"
    found: set[str] = set()
    for name in FILES:
        try:
            found |= _pairs((folder / name).read_text(encoding="utf-8"))
        except OSError:
            continue
    return frozenset(found)


def _pairs(source: str) -> set[str]:
    """First halves of all pairs of literals whose second names a config class."""
    pairs: list[tuple[ast.expr | None, ast.expr]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            pairs.append((node.elts[0], node.elts[1]))
        elif isinstance(node, ast.Dict):
            pairs.extend(zip(node.keys, node.values, strict=True))
    return {
        key.value
        for key, value in pairs
        if isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and isinstance(value, ast.Constant)
        and str(value.value).endswith("Config")
    }
