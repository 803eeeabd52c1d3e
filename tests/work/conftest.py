"""Where made-up tasks say what they do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .made_up_tasks import LOG

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file; processes of their own find it, and the tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    return tmp_path / "log"
