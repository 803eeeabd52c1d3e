"""Small programs in place of those that trace and measure: they start in no time."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.errors import ConfigError
from irene.work.task import report

QUICK, ENDLESS, FAILING = "quick", "endless", "failing"


def call(name: str) -> str:
    """The import path of one of the functions below."""
    return f"{__name__}:{name}"


def quick(argument: Mapping[str, Any]) -> bytes:
    report(1, 2, "half")
    told = argument.get("arguments", argument)  # of a run, or of learning
    return json.dumps({k: told[k] for k in ("model", "plan") if k in told}).encode()


def endless(argument: Mapping[str, Any]) -> bytes:
    """Says its process id where the program's text would be."""
    report(1, 2, f"half {os.getpid()}")
    time.sleep(600)
    return b""


def failing(argument: Mapping[str, Any]) -> bytes:
    raise ConfigError("no such layer")


def buggy(argument: Mapping[str, Any]) -> bytes:
    raise ZeroDivisionError("of the inner life")


def killed(argument: Mapping[str, Any]) -> bytes:
    os.abort()


def large(argument: Mapping[str, Any]) -> bytes:
    return random.Random(1).randbytes(500_000)


def environment(argument: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(os.environ)).encode()


def gated(argument: Mapping[str, Any]) -> bytes:
    """Notes that it runs, and ends when a file beside the scratch folder is there."""
    data_dir = Path.cwd().parents[1]
    with (data_dir / "begun").open("a", encoding="ascii") as file:
        file.write(f"{Path.cwd().name} {os.getpid()}\n")
    report(1, 2, "half")
    while not (data_dir / "gate").exists():
        time.sleep(0.01)
    with (data_dir / "done").open("a", encoding="ascii") as file:
        file.write(f"{Path.cwd().name}\n")
    return b"{}"
