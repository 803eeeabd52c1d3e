"""Packages that import late."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = '''\
"""Late."""
from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from late_one.inner import first, second as other

__getattr__ = lazily(__name__)
'''


@pytest.fixture
def late_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "late_one"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "inner.py").write_text("first, second = 1, 2")
    (folder / "needy.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("late_one", "late_one.inner", "late_one.needy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("late_one")


def test_what_checkers_see_is_imported_when_it_is_asked_for(
    late_one: ModuleType,
) -> None:
    assert "late_one.inner" not in sys.modules
    assert (late_one.first, late_one.other) == (1, 2)
    assert not hasattr(late_one, "second")


def test_what_a_module_lacks_is_not_said_of_the_package(late_one: ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        _ = late_one.needy
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = late_one.nothing
