"""Collectors as processes that can be killed: run with `python -m`.

`kill STORE LOG KILLS SEED`: forks collectors and kills them at random moments.
`one STORE`: one collector; says when it is ready.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from irene.collect.collection_plan import Step
from irene.dataset.store import Store

from ..work.made_up_tasks import note
from .conftest import collect, made_up_sweep, runs_in

POINTS = 15
LONGEST_S = 0.4


def acknowledged(step: Step) -> None:
    """What a user was told is finished."""
    if step.event == "measured":
        note(f"told {step.run}")


def told(log: Path) -> list[str]:
    if not log.exists():
        return []
    words = [line.split(" ", 1) for line in log.read_text().splitlines()]
    return [rest for kind, rest in words if kind == "told"]


def collector(store: Path) -> int:
    """Fork a collector; its process id."""
    child = os.fork()
    if not child:
        try:
            collect(made_up_sweep("a", lengths=POINTS), store, listener=acknowledged)
        finally:
            os._exit(0)
    return child


def kill_often(folder: Path, kills: int, seed: int) -> None:
    """Kill collectors; a store that is complete is judged, and a new one begun."""
    collect(made_up_sweep("a"), folder / "warm")  # imports everything, once for all
    chance = random.Random(seed)
    number = 0
    while kills:
        store = folder / f"store-{number}"
        os.environ["MADE_UP_LOG"] = str(folder / f"log-{number}")
        child = collector(store)
        time.sleep(chance.uniform(0.0, LONGEST_S))
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            number += 1
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills -= 1
        check(store, folder / f"log-{number}")
    os.waitpid(collector(store), 0)
    for place in range(number + 1):
        check(folder / f"store-{place}", folder / f"log-{place}", complete=True)


def check(store: Path, log: Path, complete: bool = False) -> None:
    """Nothing that was told is lost, nothing is there twice or half."""
    if not (store / "store.json").exists():
        assert not told(log)
        return
    opened = Store.open(store)
    entries = opened.entries()
    assert {e.state for e in entries} <= {"measured"}
    assert set(runs_in(store).values()) <= {1}
    there = {f"{e.spec.model} 1×{e.spec.seq_len}" for e in entries}
    assert set(told(log)) <= there, (told(log), there)
    assert len(told(log)) == len(set(told(log)))
    if complete:
        assert len(entries) == POINTS
        assert opened.check() == []
        assert {t.spec.seq_len for t in opened.trees()} == set(range(1, POINTS + 1))


if __name__ == "__main__":
    action, place = sys.argv[1], Path(sys.argv[2])
    if action == "kill":
        kill_often(place, int(sys.argv[3]), int(sys.argv[4]))
    else:
        report = collect(made_up_sweep("a", lengths=int(sys.argv[3])), place)
        assert not report.failures
        assert report.left == 0
        sys.stdout.write(f"{report.measured} {report.elsewhere} {report.there}\n")
