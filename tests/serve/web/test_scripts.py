"""The dashboard's scripts: their own tests, their types, what they weigh."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WEB = HERE.parents[2] / "src" / "irene" / "serve" / "web"
VENDOR = WEB / "vendor"
MOST_BYTES = 300_000
SERVED = (".js", ".css", ".html", ".svg")
STATIC_IMPORT = re.compile(r'(?:from|^import) "(\.[^"]+)"', re.MULTILINE)
ELSEWHERE = re.compile(
    r"""(?:from|import\(|src=|href=|url\(|fetch\()\s*["'`]*https?://"""
)


def served_files() -> list[Path]:
    """What a browser may ask for."""
    return sorted(path for path in WEB.rglob("*") if path.suffix in SERVED)


def test_pure_functions_in_node() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js on the path")
    tests = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    done = subprocess.run(
        [node, "--test", *tests], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def type_checker() -> str | None:
    """The TypeScript compiler, also where scripts/ensure-typescript puts it."""
    inside = Path(sys.prefix) / "typescript" / "node_modules" / ".bin"
    return shutil.which("tsc") or shutil.which("tsc", path=str(inside))


def test_types() -> None:
    compiler = type_checker()
    if compiler is None:
        pytest.skip("no TypeScript (sh scripts/ensure-typescript)")
    done = subprocess.run(
        [compiler, "--project", str(HERE / "tsconfig.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_vendored_files_are_those_of_their_list() -> None:
    listed = json.loads((VENDOR / "VENDOR.json").read_text())["files"]
    for entry in listed:
        content = (VENDOR / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["file"]
    assert {entry["file"] for entry in listed} == {p.name for p in VENDOR.glob("*.js")}


def test_every_vendored_package_has_version_and_licence() -> None:
    free = {"MIT", "ISC", "Apache-2.0", "BSD-3-Clause"}
    for entry in json.loads((VENDOR / "VENDOR.json").read_text())["files"]:
        for package in entry["packages"]:
            assert package["version"][0].isdigit()
            assert package["licence"] in free, package["name"]
            text = (VENDOR / package["licence_file"]).read_text()
            assert "permission" in text.lower() or "licen" in text.lower()


def loaded_with(path: Path, known: set[Path]) -> set[Path]:
    """A script and all that it imports at once; pages are imported when visited."""
    if path in known:
        return known
    known.add(path)
    for name in STATIC_IMPORT.findall(path.read_text()):
        loaded_with((path.parent / name).resolve(), known)
    return known


@pytest.mark.parametrize("page", sorted(path.stem for path in WEB.glob("pages/*.js")))
def test_page_weight_without_data(page: str) -> None:
    scripts = loaded_with(WEB / "app.js", set())
    scripts |= loaded_with(WEB / "pages" / f"{page}.js", set())
    others = [path for path in served_files() if path.suffix != ".js"]
    early = (WEB / "theme.js", WEB / "preload.js")
    contents = [path.read_bytes() for path in (*scripts, *others, *early)]
    whole, packed = (sum(map(len, c)) for c in (contents, map(gzip.compress, contents)))
    print(f"{page}: {whole:,} bytes, {packed:,} packed")  # noqa: T201
    assert whole < MOST_BYTES


def test_scripts_are_asked_for_at_once() -> None:
    shell = loaded_with(WEB / "app.js", set())
    page = (WEB / "index.html").read_text()
    linked = re.findall(r'modulepreload" href="/static/([^"]+)"', page)
    first = re.findall(
        r'^ +"([^"]+)",$', (WEB / "preload.js").read_text(), re.MULTILINE
    )
    explore = loaded_with(WEB / "pages" / "explore.js", set()) - shell
    assert sorted(linked) == names_of(shell - {WEB / "app.js"})
    assert first == names_of(explore)


def names_of(paths: set[Path]) -> list[str]:
    """Addresses below /static."""
    return sorted(path.relative_to(WEB).as_posix() for path in paths)


def test_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (WEB / "index.html").read_text()
    assert "style=" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count('.js"></script>')
    for path in served_files():
        if VENDOR in path.parents:
            continue
        text = path.read_text()
        for word in ("innerHTML", "dangerouslySetInnerHTML", "eval(", "new Function"):
            assert word not in text, f"{word} in {path.name}"
        assert not ELSEWHERE.search(text), path.name
