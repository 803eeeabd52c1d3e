"""Predicted trees of small models, made once."""

from __future__ import annotations

from functools import cache

import pytest

from irene.predict.api import predict
from irene.tree import ModelTree

SIZES = {"batch_size": 4, "seq_len": 32}


@cache
def _predicted(model: str, sizes: tuple[tuple[str, object], ...]) -> ModelTree:
    return predict(model, **dict(sizes))


@pytest.fixture(scope="session")
def predicted():
    """The tree of a model, predicted by the machine that ships."""

    def tree(model: str, **sizes: object) -> ModelTree:
        return _predicted(model, tuple(sorted({**SIZES, **sizes}.items())))

    return tree
