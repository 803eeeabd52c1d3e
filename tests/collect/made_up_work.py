"""Work that takes no time: trees whose energies follow from their sizes.

Its functions are tasks: processes of their own import this module by its name. They
start quickly as they import little; the form of a result is made beforehand.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from irene.spec import RunSpec

from ..work.made_up_tasks import note, trouble

FORM = "MADE_UP_FORM"
SLEEP = "MADE_UP_SLEEP_S"
CLOCK = "MADE_UP_CLOCK_S"
TORCH = "MADE_UP_TORCH"
DESK = "MADE_UP_DESK"


def write_form(path: Path) -> None:
    """The result of a run of one token, to be filled in."""
    import numpy as np

    from irene.collect.measuring import Measured
    from irene.dataset.store import Origin
    from irene.hardware import Hardware
    from irene.tree import EnergyColumns, TreeBuilder

    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    builder.add(model, "fc", "ml", "Linear", flops=1)
    tree = builder.build(spec=RunSpec("a"))
    joules = np.array([3.0, 1.0])
    source = np.zeros(2, np.uint8)
    energy = EnergyColumns(joules, joules, joules, source, "made up")
    known = tree.with_energy(energy, Hardware("lab", "wall", "a desk"))
    path.write_bytes(Measured(known, Origin.of_tree(known)).to_bytes())


def measure_made_up(argument: Mapping[str, Any]) -> bytes:
    """A tree whose energies follow from the run."""
    spec = RunSpec.from_dict(argument["spec"])
    note(f"begin {spec.digest} {os.getpid()}")
    trouble(spec.model)
    began_s = time.monotonic()
    time.sleep(float(os.environ.get(SLEEP, "0")))
    os.write(1, b"what the work prints is no answer\n")
    head, tree = map(json.loads, Path(os.environ[FORM]).read_bytes().split(b"\n"))
    origin = head["origin"]
    if spec.model != "other-run":
        tree["spec"] = spec.to_dict()
    _multiply(tree["tree"], spec.tokens)
    where = {"name": argument["machine"], "description": os.environ.get(DESK, "a desk")}
    tree["hardware"].update(where)
    origin["hardware"].update(where)
    off = timedelta(seconds=float(os.environ.get(CLOCK, "0")))
    origin["finished"] = (datetime.now(UTC) + off).isoformat()
    origin["duration_s"] = time.monotonic() - began_s
    origin["software"] = {"torch": os.environ.get(TORCH, "1.0")}
    note(f"end {spec.digest} {os.getpid()}")
    return f"{json.dumps(head)}\n{json.dumps(tree)}".encode()


def _multiply(node: dict[str, Any], factor: int) -> None:
    for name in ("energy_j", "low_j", "high_j", "own_j"):
        node[name] *= factor
    for child in node["children"]:
        _multiply(child, factor)


def learned_node(argument: Mapping[str, Any]) -> bytes:
    """What a node of a cluster would send: the machine of its name in a file."""
    return Path(os.environ["IRENE_HOME"], f"{argument['name']}.json").read_bytes()
