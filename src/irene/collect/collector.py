"""Collecting: the runs of a sweep, each measured once, whatever happens meanwhile.

Only the collector writes the store. A run is in the store whole or not at all; a
collector that is killed loses what is being measured just then, and the next goes on.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from irene.collect.collection_plan import (
    CollectionPlan,
    Failure,
    Listener,
    Point,
    Report,
    Step,
    StoredRuns,
    loose_key,
)
from irene.collect.measuring import Measured, Measuring, label_of
from irene.dataset.measured_data import disturbed_nodes
from irene.dataset.store import Origin, Store
from irene.errors import FormatError, IreneError, UsageError
from irene.hardware import Hardware
from irene.work.bounds import Bounds
from irene.work.engines.engine import Engine
from irene.work.lock import Lock, kept_name, take
from irene.work.task import SOFTWARE, Outcome, Task, describe_place

POLL_S = 0.25
LEAST_TIMEOUT_S = 600.0
TIMEOUT_GUESSES = 10.0
CLOCK_OFF_S = 60.0
HOUR_S = 3600.0
UNKNOWN = "unknown"

log = logging.getLogger(__name__)


class Collector:
    """Takes the open runs of a plan to an open engine, and their results to a store.

    The store is made if need be. `stop` says whether to stop, asked several times a
    second.
    """

    def __init__(
        self,
        plan: CollectionPlan,
        store: Path,
        engine: Engine,
        work: Measuring,
        listener: Listener | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._plan = plan
        self._path = store
        self._engine = engine
        self._work = work
        self._listener = listener
        self._stop = stop
        self._store = Store.open(store, create=True)
        self._known = StoredRuns(self._store, plan.sweep.machine)
        self._claims = Claims(store)
        self._collection = kept_name(store / "collect" / "id")
        self._name = f"{describe_place()['host']}-{os.getpid()}-{secrets.token_hex(3)}"
        self._flying: dict[str, Point] = {}
        self._old: set[str] = set()
        self._pace = Pace({p.key: p.guess_s for p in plan.open}, plan.slower)
        self._said: set[str] = set()
        self.report = Report(len(plan.points), plan.count("measured"))
        self.report.failures += [
            Failure(p.spec, p.problem) for p in plan.points if p.state == "failed"
        ]

    def run(self) -> Report:
        """Measure everything that is open, until done or it is asked to stop."""
        waiting = deque(self._plan.open)
        self._known.refresh()
        self._old = {e.id for p in waiting for e in self._known.failures(p.spec)}
        self._tell("", "")
        try:
            while (waiting or self._flying) and not self._stop():
                self._hand_over(waiting)
                for outcome in self._engine.wait(POLL_S):
                    self._take_in(outcome)
                for news in self._engine.news():
                    self._tell("", "", message=news)
        finally:
            self._engine.cancel()
            self._claims.release()
        self.report.stopped = bool(waiting or self._flying)
        self.report.lasted_s = self._pace.lasted_s
        self._tell("", "")
        return self.report

    def _hand_over(self, waiting: deque[Point]) -> None:
        """Give the engine as many runs as it likes to have."""
        for _ in range(len(waiting)):
            if len(self._flying) >= self._engine.window or self._stop():
                return
            point = waiting.popleft()
            left = self._claims.was_left(point.key)
            if not self._claims.take(point.key):
                waiting.append(point)  # another collector measures it; look later
                continue
            if left:  # its collector may have been killed with the result half way in
                self._store = Store.open(self._path, create=True)
                self._known.store = self._store
            if not self._settled_elsewhere(point):
                self._begin(point)

    def _settled_elsewhere(self, point: Point) -> bool:
        """Whether another collector has done with a run meanwhile."""
        self._known.refresh()
        failures = self._known.failures(point.spec)
        new = [entry for entry in failures if entry.id not in self._old]
        if self._known.measured(point.spec) is not None:
            self.report.elsewhere += 1
        elif new:
            self.report.failures.append(Failure(point.spec, new[-1].reason))
        else:
            return False
        self._pace.finish(point.key, worked=False)
        self._claims.done(point.key)
        self._tell(label_of(point.spec), "skipped")
        return True

    def _begin(self, point: Point) -> None:
        if point.problem:  # there is no such model
            self._fail(
                point, Outcome(point.key, fault="refused", problem=point.problem)
            )
            return
        self._flying[point.key] = point
        sweep = self._plan.sweep
        guess_s = (point.guess_s or 0.0) * max(1.0, self._plan.slower)
        limit_s = sweep.measurement.timeout_s
        if limit_s is None:
            limit_s = LEAST_TIMEOUT_S + TIMEOUT_GUESSES * guess_s
        argument = sweep.argument(point.spec, point.model, self._collection)
        bounds = Bounds(wall_s=limit_s)
        self._engine.submit(Task(point.key, self._work.call, argument, bounds))
        self._tell(label_of(point.spec), "started")

    def _take_in(self, outcome: Outcome) -> None:
        """Put what became of a run into the store."""
        point = self._flying.pop(outcome.task, None)
        if point is None:  # a machine that was thought to be lost
            return
        if outcome.payload is None:
            self._fail(point, outcome)
            return
        try:
            measured = Measured.from_bytes(outcome.payload)
            came = measured.tree.spec
            if came is None or loose_key(came) != loose_key(point.spec):
                raise FormatError(f"another run came back: {came}")
            self._store.check_machine(measured.origin.hardware)
        except (FormatError, UsageError) as error:
            broken = replace(outcome, payload=None, fault="refused", problem=str(error))
            self._fail(point, broken)
            return
        origin = replace(
            measured.origin, collector=self._name, engine=self._engine.name
        )
        self._add(lambda: self._store.add(measured.tree, origin, unless_there=True))
        self.report.measured += 1
        self._look_at(origin)
        count, nodes = int(disturbed_nodes(measured.tree).sum()), len(measured.tree)
        told = f"{count:,} of {nodes:,} nodes were disturbed" if count else ""
        self.report.disturbed += bool(count)
        self._end(point, "measured", outcome.duration_s, told)

    def _fail(self, point: Point, outcome: Outcome) -> None:
        reason = outcome.reason
        place = outcome.place or describe_place()
        origin = Origin(
            host=place.get("host", UNKNOWN),
            hardware=Hardware(self._plan.sweep.machine, UNKNOWN),
            software={name: place[name] for name in SOFTWARE if name in place},
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
            duration_s=outcome.duration_s,
            collector=self._name,
            engine=self._engine.name,
        )
        self._add(lambda: self._store.add_failure(point.spec, origin, reason))
        self.report.failures.append(Failure(point.spec, reason))
        self._end(point, "failed", outcome.duration_s, reason)

    def _add(self, write: Callable[[], str]) -> None:
        try:
            write()
        except OSError as error:
            raise IreneError(
                f"cannot write {self._path}: {error.strerror}; what is in it stays, "
                "and finished nodes are kept: make room and give the same command again"
            ) from error

    def _end(self, point: Point, event: str, lasted_s: float, why: str = "") -> None:
        self._claims.done(point.key)
        self._pace.finish(point.key)
        self._tell(label_of(point.spec), event, lasted_s, why)

    # What is said -------------------------------------------------------------

    def _look_at(self, origin: Origin) -> None:
        """Say it once if a worker is not like the others."""
        used = {*self._known.software, origin.software_name}
        self._known.software.setdefault(origin.software_name, 0)
        if len(used) > 1:
            self._say(
                f"{origin.host} has {origin.software_name}; others have "
                f"{'; '.join(sorted(used - {origin.software_name}))}: kept apart"
            )
        try:
            finished = datetime.fromisoformat(origin.finished)
            off_s = (datetime.now(UTC) - finished).total_seconds()
        except (ValueError, TypeError):  # it does not say, or not in which zone
            return
        if abs(off_s) > CLOCK_OFF_S:
            way = "behind" if off_s > 0 else "ahead of"
            self._say(
                f"the clock of {origin.host} is {way} this one by about "
                f"{abs(off_s):,.0f} s: its times are kept as they are, and nothing is "
                "put in order by them",
                f"clock of {origin.host}",
            )

    def _say(self, message: str, about: str = "") -> None:
        if (about or message) not in self._said:
            self._said.add(about or message)
            self.report.messages.append(message)
            log.info("%s", message)
            self._tell("", "", message=message)

    def _tell(
        self, run: str, event: str, lasted_s: float = 0.0, message: str = ""
    ) -> None:
        if self._listener is None:
            return
        report, pace = self.report, self._pace
        self._listener(
            Step(
                done=report.points - report.left,
                total=report.points,
                failed=len(report.failures),
                run=run,
                event=event,
                lasted_s=lasted_s,
                rate_per_hour=pace.rate_per_hour,
                left_s=pace.left_s,
                message=message,
            )
        )


class Claims:
    """Two collectors on one store do not measure the same run.

    STORE/collect/KEY.claim is held while somebody measures that run.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store / "collect"
        self._held: dict[str, Lock] = {}

    def take(self, key: str) -> bool:
        """Claim a run; False if another collector has it."""
        held = take(self._path(key))
        if held is not None:
            self._held[key] = held
        return held is not None

    def was_left(self, key: str) -> bool:
        """Whether somebody claimed a run and has not done with it."""
        return self._path(key).exists()

    def done(self, key: str) -> None:
        """Give a claim back: what became of the run is in the store."""
        self._path(key).unlink(missing_ok=True)
        self._held.pop(key).release()

    def release(self) -> None:
        """Give all claims back, whatever became of their runs."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.claim"


class Pace:
    """Learns from what has been done how long the rest takes.

    All of it is by the collector's own monotonic clock: those of machines differ.
    """

    def __init__(
        self,
        guesses: dict[str, float | None],
        slower: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        known = [guess for guess in guesses.values() if guess]
        usual = sum(known) / len(known) if known else 0.0
        self._open = {key: guess or usual for key, guess in guesses.items()}
        self._slower = slower
        self._clock = clock
        self._began_s = clock()
        self._done = 0
        self._done_guess_s = 0.0

    def finish(self, key: str, worked: bool = True) -> None:
        """A task has ended; one that another collector did says nothing of the pace."""
        guess_s = self._open.pop(key, 0.0)
        if worked:
            self._done += 1
            self._done_guess_s += guess_s

    @property
    def rate_per_hour(self) -> float:
        """Tasks per hour, so far."""
        return HOUR_S * self._done / max(self.lasted_s, 1e-9)

    @property
    def lasted_s(self) -> float:
        """Time since the beginning, s."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """About how long the rest takes, s."""
        left = sum(self._open.values())
        if self._done and self._done_guess_s:
            return left * self.lasted_s / self._done_guess_s
        if self._done:
            return len(self._open) * self.lasted_s / self._done
        return left * self._slower
