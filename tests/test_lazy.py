"""Packages that import late."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.lazy import lazily


def test_what_a_module_lacks_is_not_said_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_one").mkdir()
    (tmp_path / "late_one" / "__init__.py").touch()
    (tmp_path / "late_one" / "needy.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    find = lazily("late_one", {})
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        find("needy")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        find("nothing")
