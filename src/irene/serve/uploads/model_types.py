"""The model types that transformers has built in, read without importing it.

Importing transformers takes seconds and brings torch along, which the HTTP process must
not have; its tables are plain literals, so they are read as text.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import util
from pathlib import Path

__all__ = ["known_model_types"]

FILES = ("auto_mappings.py", "configuration_auto.py")


@cache
def known_model_types() -> frozenset[str]:
    """Values of `model_type` that transformers can build; empty if it has moved."""
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
