"""The wheel works where there is no checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

BIN = "Scripts" if os.name == "nt" else "bin"


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed without our environment."""
    outside = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in outside}
    env["HF_HUB_OFFLINE"] = "1"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    options = ("--wheel", "--no-isolation", "--outdir", out)
    run(sys.executable, "-m", "build", *options, repository, cwd=out)
    (built,) = out.glob("irene_energy-*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; the dependencies are those of this one."""
    home = tmp_path_factory.mktemp("elsewhere")
    environment = home / "env"
    venv.create(environment, with_pip=False)
    python = environment / BIN / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel, cwd=home)
    ours = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    theirs = run(
        python,
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
        cwd=home,
    )
    # A folder named in a .pth file joins the path, but .pth files inside it are not
    # read: the editable install of this checkout stays invisible.
    link = Path(theirs.strip()) / "dependencies.pth"
    link.write_text("".join(f"{folder}\n" for folder in sorted(ours)))
    return home


def irene(home: Path, *arguments: str) -> str:
    return run(home / "env" / BIN / "irene", *arguments, cwd=home)


def test_wheel_holds_data_files_licence_and_nothing_else(
    wheel: Path, package: Path
) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    kinds = {Path(name).suffix for name in data}
    assert {".json", ".css", ".js"} <= kinds
    assert data - names == set()
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert "irene/py.typed" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"irene"}


def test_the_installed_package_is_the_wheel(elsewhere: Path) -> None:
    python = elsewhere / "env" / BIN / "python"
    where = run(python, "-c", "import irene; print(irene.__file__)", cwd=elsewhere)
    assert (elsewhere / "env").resolve() in Path(where.strip()).resolve().parents


def test_models_lists_the_catalogue(elsewhere: Path) -> None:
    assert "bert-base-uncased" in irene(elsewhere, "models")


def test_trace_gives_a_tree(elsewhere: Path) -> None:
    document = json.loads(irene(elsewhere, "trace", "bert-l2-h128", "--json"))
    assert document["schema"] == "irene.tree/1"
    tree = document["tree"]
    assert tree["kind"] == "model"
    assert tree["op"] == "BertModel"
    assert tree["flops"] > 0
    assert tree["children"]
