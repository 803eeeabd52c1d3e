"""A sampler in a process of its own: a busy program does not hold it up.

`python -m irene.meters.sampling.sampling_process` samples until its standard input
ends, so it does not outlive its parent. A line on standard input asks for a sample at
once; the answer is one line of JSON with the totals. It needs neither numpy nor torch.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from irene.errors import IreneError
from irene.meters.channel import Channel
from irene.meters.sampling.sampler import SamplingLoop
from irene.meters.sampling.totals import Snapshot

__all__ = ["main"]

LONGEST_SLEEP_S = 0.25
"""How long it takes at most to notice that standard input has ended, s."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample until standard input ends.

    Args:
        arguments: Words of the command line; None for those of this process.
    """
    parser = argparse.ArgumentParser(prog="irene.meters.sampling.sampling_process")
    parser.add_argument("--meter", action="append", default=[], dest="meters")
    parser.add_argument("--period-s", type=float, required=True)
    parser.add_argument("--no-finer", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pid", type=int, default=None)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    try:
        loop = _open(options)
    except IreneError as error:
        _answer({"error": str(error)})
        return error.exit_code
    loop.sample()  # whoever hears the answer is covered from then on
    channels = [asdict(channel) for channel in loop.channels]
    _answer({"channels": channels, "period_s": loop.period_ns * 1e-9})
    _drive(loop)
    loop.finish()
    _answer(
        {
            "samples": loop.samples,
            "late": loop.late,
            "missed": loop.missed,
            "problems": loop.problems,
        }
    )
    return 0


def _open(options: argparse.Namespace) -> SamplingLoop:
    from irene.meters.finding import open_meters

    meters = open_meters(options.meters or ["auto"], pid=options.pid)
    period_s = options.period_s
    if options.no_finer:
        steps = [c.resolution_s for m in meters for c in m.channels if _counts(c)]
        period_s = max(period_s, min(steps, default=0.0))
    return SamplingLoop(meters, period_s, options.out)


def _counts(channel: Channel) -> bool:
    return channel.is_energy and channel.counted and channel.resolution_s > 0


def _drive(loop: SamplingLoop) -> None:
    """Sample on time; a thread waits for questions, which costs nothing meanwhile."""
    lock, over = threading.Lock(), threading.Event()
    loop.next_ns = time.monotonic_ns() + loop.period_ns
    thread = threading.Thread(target=_listen, args=(loop, lock, over), daemon=True)
    thread.start()
    gc.disable()  # nothing here is made of cycles
    while not over.is_set():
        wait_s = (loop.next_ns - time.monotonic_ns()) * 1e-9
        if wait_s > 0:
            time.sleep(min(wait_s, LONGEST_SLEEP_S))
        if time.monotonic_ns() >= loop.next_ns:
            with lock:
                loop.tick()


def _listen(loop: SamplingLoop, lock: threading.Lock, over: threading.Event) -> None:
    """Answer questions until there are no more."""
    while words := os.read(sys.stdin.fileno(), 64):
        for _ in range(words.count(b"\n")):
            with lock:
                snapshot = loop.sample()
            _answer(_as_json(snapshot))
    over.set()


def _as_json(snapshot: Snapshot) -> dict[str, object]:
    return {
        "time_ns": snapshot.time_ns,
        "integral": snapshot.integral,
        "known_s": snapshot.known_s,
    }


def _answer(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the parent is gone; standard input ends too
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    sys.exit(main())
