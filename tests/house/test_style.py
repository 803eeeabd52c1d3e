"""House style that no linter checks."""

from __future__ import annotations

import ast
from pathlib import Path

LONGEST_MODULE = 400
# Names that say nothing about what is inside.
EMPTY_NAMES = {
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "util",
    "utils",
}


def says_nothing(path: Path) -> bool:
    return any(
        word in EMPTY_NAMES
        for part in path.parts
        for word in Path(part).stem.split("_")
    )


def repeated(files: list[Path]) -> dict[str, list[str]]:
    """Files whose names occur three times or more, by name."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        if file.name != "__init__.py":
            by_name.setdefault(file.name, []).append(file.as_posix())
    return {name: found for name, found in by_name.items() if len(found) > 2}


def prints(source: str) -> list[int]:
    """Lines of a module that call `print`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def test_modules_are_short(package: Path) -> None:
    lengths = {
        file.relative_to(package).as_posix(): len(
            file.read_text(encoding="utf-8").splitlines()
        )
        for file in package.rglob("*.py")
    }
    assert lengths
    assert {name: n for name, n in lengths.items() if n > LONGEST_MODULE} == {}


def test_file_names_say_what_is_inside(package: Path) -> None:
    files = [file.relative_to(package) for file in package.rglob("*.py")]
    assert [file.as_posix() for file in files if says_nothing(file)] == []


def test_a_file_name_means_one_thing(package: Path) -> None:
    files = [file.relative_to(package) for file in sorted(package.rglob("*.py"))]
    assert repeated(files) == {}


def test_only_the_cli_prints(package: Path) -> None:
    found = [
        f"{file.relative_to(package).as_posix()}:{line}"
        for file in sorted(package.rglob("*.py"))
        if file.relative_to(package).parts[0] != "cli"
        for line in prints(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_checks_find_what_they_look_for() -> None:
    assert prints("def f():\n    print(1)\n") == [2]
    assert prints("tree.print(1)\n'print(1)'\n") == []
    assert says_nothing(Path("trace/utils.py"))
    assert says_nothing(Path("helpers/shape.py"))
    assert says_nothing(Path("trace/shape_utils.py"))
    assert not says_nothing(Path("trace/shapes.py"))
    twice = [Path("a/tables.py"), Path("b/tables.py")]
    assert repeated([*twice, Path("a/__init__.py"), Path("b/__init__.py")]) == {}
    assert list(repeated([*twice, Path("c/tables.py")])) == ["tables.py"]
