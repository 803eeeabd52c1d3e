"""Model types whose inputs follow no general rule, each with what is special about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irene.trace.inputs.maker import InputMaker

__all__ = ["ALSO", "SPECIAL"]

Make = Callable[[InputMaker], dict[str, Any]]

SPECIAL: dict[str, Make] = {}
"""Everything, by model type."""

ALSO: dict[str, Make] = {}
"""What comes beside the usual inputs, by model type."""
