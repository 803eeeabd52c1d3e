"""Models of a project, as its files or those of another commit make them.

They are predicted in a bounded child process, as the code of a project may do anything.
Git writes the files of another commit into a folder of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from irene.errors import IreneError, UsageError
from irene.parameters import written
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.work.bounds import Bounds
from irene.work.child import Child
from irene.work.task import Outcome, Task

SOURCES = (".", "src")
"""Folders of a project that its modules are imported from."""
FILE_BYTES = 10**9


@contextmanager
def files_of(folder: Path, commit: str) -> Iterator[Path]:
    """The folder as it is in a commit, in a place of its own."""
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    try:
        found = _git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
    except UsageError:
        raise UsageError(
            f"git knows no commit {commit!r}: fetch it first (in a workflow: "
            "fetch-depth: 0)"
        ) from None
    with tempfile.TemporaryDirectory(prefix="irene-base-") as made:
        place = Path(made) / "files"
        place.mkdir()
        index = {"GIT_INDEX_FILE": str(Path(made) / "index")}
        _git(top, "read-tree", found, **index)
        _git(top, "checkout-index", "--all", f"--prefix={place}/", **index)
        inside = place / folder.resolve().relative_to(top.resolve())
        inside.mkdir(parents=True, exist_ok=True)  # the commit may lack it
        yield inside


def _git(folder: Path, *words: str, **environment: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, env={**os.environ, **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"cannot run git: {error.strerror}") from error
    if done.returncode:
        told = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UsageError(f"git {words[0]} failed in {folder}: {told[-1]}")
    return done.stdout.strip()


def predicted_in(
    folder: Path, runs: Sequence[tuple[RunSpec, str]], timeout_s: float
) -> list[ModelTree | str]:
    """A tree for every run, or why there is none; in a child of this process."""
    bounds = Bounds(wall_s=timeout_s, file_bytes=FILE_BYTES)
    child: Child | None = None
    found: list[ModelTree | str] = []
    try:
        for run, on in runs:
            child = child or Child(folder=folder)
            argument = {"run": written(run), "on": on}
            call = f"{__name__}:{predicted_there.__name__}"
            child.begin(Task(run.model, call, argument, bounds))
            outcome = child.wait()
            assert outcome is not None
            found.append(_tree(outcome))
            if outcome.fault not in ("", "refused"):
                child.end(0.0)
                child = None
    finally:
        if child is not None:
            child.end(0.0)
    return found


def _tree(outcome: Outcome) -> ModelTree | str:
    if outcome.payload is None:
        return " ".join(outcome.reason.split())
    return ModelTree.from_json(outcome.payload.decode())


def predicted_there(argument: Mapping[str, Any]) -> bytes:
    """Predict a model of the project in whose folder this process runs.

    Args:
        argument: `run`, the fields of a run, and `on`, a machine.
    """
    from irene.predict.api import predict

    here = [str(Path(each).resolve()) for each in SOURCES]
    sys.path[:] = [*here, *(each for each in sys.path if each not in here)]
    options = dict(argument["run"])
    made, inputs = _made(options.pop("model"))
    tree = predict(made, inputs, on=argument["on"], **options)
    return tree.fold().to_json().encode()


def _made(model: str) -> tuple[Any, Any]:
    """What is predicted, and its inputs: a factory's, or what has this name."""
    module, colon, name = model.partition(":")
    if not colon or not all(part.isidentifier() for part in module.split(".")):
        return model, None
    try:
        factory: Any = import_module(module)
        for part in name.split("."):
            factory = getattr(factory, part)
    except IreneError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise UsageError(f"cannot import {model}: {words}") from error
    made = factory() if callable(factory) else factory
    return made if isinstance(made, tuple) else (made, None)
