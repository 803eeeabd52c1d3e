from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.nn.modules import module as module_hooks

from irene.account.live.script import Program, after_import, run_program
from irene.account.live.session import Wanted
from irene.cli import main
from irene.errors import UsageError
from tests.account.simulated import WATTS, SteadyMeter

TRAIN = """
import torch
from torch import nn

def train(steps):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.zeros(4, 8)).sum().backward()
        optimizer.step()
"""


def wanted(**options: Any) -> Wanted:
    return Wanted(meters=[SteadyMeter()], period_s=0.005, **options)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a script with a module beside it that trains."""
    (tmp_path / "training_beside.py").write_text(TRAIN)

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text("from training_beside import train\n" + text)
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    before = (
        sys.argv,
        sys.path[:],
        sys.modules["__main__"],
        sys.meta_path[:],
        Path.cwd(),
    )
    yield
    after = sys.argv, sys.path[:], sys.modules["__main__"], sys.meta_path[:], Path.cwd()
    assert after == before
    assert not module_hooks._global_forward_pre_hooks
    sys.modules.pop("training_beside", None)


def test_a_script_runs_as_python_runs_it(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    path = script(
        "import json, sys\n"
        "from pathlib import Path\n"
        "train(3)\n"
        "main = sys.modules['__main__'].__dict__ is globals()\n"
        "facts = [__name__, __file__, sys.argv, sys.path[0], main]\n"
        "Path(__file__).with_name('facts.json').write_text(json.dumps(facts))\n"
        "sys.exit(3)\n"
    )
    done = run_program(Program(str(path), ("--lr", "1")), wanted())
    assert done.exit_code == 3
    facts = json.loads((tmp_path / "facts.json").read_text())
    arguments = [str(path), "--lr", "1"]
    assert facts == ["__main__", str(path), arguments, str(tmp_path), True]
    assert done.live.events.steps == ("1", "2", "3")
    assert set(done.live.events.scope.names) == {"", "0", "1", "2"}


def test_an_exception_is_shown_as_the_script_s_own(
    script: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("train(2)\ndef deep():\n    raise ValueError('boom')\ndeep()\n")
    done = run_program(Program(str(path)), wanted(level="module"))
    assert done.exit_code == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{path}", line 5, in <module>'
    assert lines[-1] == "ValueError: boom"
    assert sum(line.startswith("  File") for line in lines) == 2
    assert len(done.live.events.steps) == 2


def test_a_script_that_does_not_compile(
    script: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_program(Program(str(script("def (:\n"))), wanted())
    assert done.exit_code == 1
    assert done.live.ledger is None
    error = capsys.readouterr().err
    assert "SyntaxError" in error
    assert "runpy" not in error


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """A process of its own has no handler; libraries of other tests may leave one."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("import sys; sys.exit('so long')", 1, "so long"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, ""),
        ("import sys; sys.exit()", 0, ""),
        ("", 0, ""),
    ],
)
def test_how_a_script_ends(
    script: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    ending: str,
    code: int,
    says: str,
) -> None:
    path = script(f"train(2)\n{ending}\n")
    done = run_program(Program(str(path)), wanted(level="module"))
    assert (done.exit_code, done.problem) == (code, None)
    assert says in capsys.readouterr().err
    assert len(done.live.events.steps) == 2


def test_threads_of_a_script_are_waited_for(script: Callable[[str], Path]) -> None:
    path = script(
        "import threading, time\n"
        "def late():\n    time.sleep(0.2)\n    train(2)\n"
        "threading.Thread(target=late).start()\n"
    )
    done = run_program(Program(str(path)), wanted(level="module"))
    assert len(done.live.events.steps) == 2


def test_a_module_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "trained_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inside.py").write_text(TRAIN)
    (package / "run.py").write_text(
        "import os, sys\nfrom .inside import train\n"
        "assert __name__ == '__main__' and sys.argv[1:] == ['--n', '2']\n"
        "os.chdir('/')\ntrain(int(sys.argv[2]))\n"
    )
    monkeypatch.chdir(tmp_path)
    program = Program("trained_package.run", ("--n", "2"), is_module=True)
    done = run_program(program, wanted(level="module", folder=Path("kept")))
    assert done.exit_code == 0
    assert len(done.live.events.steps) == 2
    assert (tmp_path / "kept" / "events.npz").exists()


def test_what_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"no script nowhere\.py"):
        Program("nowhere.py")
    with pytest.raises(UsageError, match="no module no_such_package"):
        run_program(Program("no_such_package", is_module=True), wanted())


def test_idle_power_is_measured_before_the_program(
    script: Callable[[str], Path],
) -> None:
    path = script("import time\ntrain(1)\ntime.sleep(0.3)\n")
    done = run_program(Program(str(path)), wanted(level="module", idle_s=0.2))
    (series,) = done.live.power
    assert series.idle_w == pytest.approx(WATTS, rel=1e-6)
    idle = {row.name: row.energy for row in done.live.rest()}["idle"]
    assert idle is not None
    assert idle.joules >= 0.3 * WATTS * 0.9


# Waiting for an import ------------------------------------------------------------


def test_something_happens_after_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "awaited_one.py").write_text("READY = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[bool] = []
    with after_import(
        "awaited_one", lambda: seen.append(sys.modules["awaited_one"].READY)
    ):
        assert seen == []
        __import__("awaited_one")
        assert seen == [True]
    with after_import("awaited_one", lambda: seen.append(False)):
        assert seen == [True, False]  # it is there already
    with after_import("never_imported", lambda: seen.append(False)):
        pass
    assert seen == [True, False]


# The command ----------------------------------------------------------------------


def irene(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "irene", "account", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_the_command_accounts_for_a_script(
    script: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("print('a word of the script')\ntrain(4)\n")
    # A script may yet choose how PyTorch is started.
    path.write_text(
        "import sys\nassert 'torch' not in sys.modules\n" + path.read_text()
    )
    options = ["--meters", "estimate", "--skip", "1", "--steps", "2"]
    done = irene(*options, "--json", "--folder", "run", path.name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "a word of the script" in done.stderr
    names = {file.name for file in (tmp_path / "run").iterdir()}
    assert names == {"trace.json", "events.npz", "samples.csv"}
    # The folder gives the same ledger again.
    assert main(["account", "--merge", str(tmp_path / "run"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for found in (document, again):
        found.pop("created", None)
    assert again == document


def test_the_command_s_table_and_the_script_s_failure(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    path = script("print('a word of the script')\ntrain(2)\nraise SystemExit(7)\n")
    done = irene("--meters", "estimate", "--level", "module", path, folder=tmp_path)
    assert done.returncode == 7
    assert done.stdout == "a word of the script\n"
    assert "estimated by estimate:cpu" in done.stderr


def test_a_script_without_pytorch_is_said(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("print(1)\n")
    done = irene("--meters", "estimate", path, folder=tmp_path)
    assert done.returncode == 2
    assert "never used PyTorch" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.py"], "no script nowhere.py"),
        (["--merge", "folder", "program.py"], "runs nothing"),
        (["--trace", "trace.json", "program.py"], "--trace is for recorded files"),
        (["--merge", "nowhere"], "nowhere holds no events"),
        (["--steps", "0", __file__], "at least one step"),
        (["--idle-w", "3", "--idle-s", "1", __file__], "either known"),
    ],
)
def test_bad_requests(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["account", *words]) == 2
    assert says in capsys.readouterr().err
