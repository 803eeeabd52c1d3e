"""A tree as a pandas DataFrame, and how any table becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from irene.errors import MissingExtraError
from irene.tree.columns import KINDS, Shape
from irene.tree.model_tree import SOURCES, ModelTree

__all__ = ["data_frame", "tree_frame"]


def data_frame(columns: Mapping[str, Any]) -> Any:
    """A pandas DataFrame of these columns.

    Args:
        columns: Lists or arrays of one length, by name.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise MissingExtraError(
            "data frames need pandas: pip install pandas, or "
            "pip install 'irene-energy[pandas]'"
        ) from error
    return pandas.DataFrame(dict(columns))


def tree_frame(tree: ModelTree) -> Any:
    """One row per node in pre-order; costs and energies are of one instance.

    Args:
        tree: Any tree; columns of energy are there if it carries energy.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    columns = tree.columns
    names = np.array(tree.strings, dtype=object)
    signatures = [tree.signatures[i] for i in columns.signature.tolist()]
    found: dict[str, Any] = {
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": names[columns.op],
        "depth": columns.depth,
        "call": tree.calls,
        "count": columns.count,
        "instances": tree.multiplicity,
        "dtype": [signature.dtype for signature in signatures],
        "inputs": [_told(signature.inputs) for signature in signatures],
        "outputs": [_told(signature.outputs) for signature in signatures],
        "params": columns.params,
        "flops": columns.flops,
        "bytes_read": columns.bytes_read,
        "bytes_written": columns.bytes_written,
    }
    return data_frame({**found, **_energies(tree), **tree.features})


def _energies(tree: ModelTree) -> dict[str, Any]:
    energy = tree.energy
    if energy is None:
        return {}
    total_j = energy.joules[0]
    whole = total_j if total_j > 0 else np.nan
    return {
        "energy_j": energy.joules,
        "low_j": energy.low,
        "high_j": energy.high,
        "source": [SOURCES[source] for source in energy.source.tolist()],
        "own_j": tree.own_j,
        "share": energy.joules * tree.multiplicity / whole,
    }


def _told(shapes: Sequence[Shape]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
