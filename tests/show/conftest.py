"""Predicted trees of small models, made once."""

from tests.analyse.conftest import predicted

__all__ = ["predicted"]
