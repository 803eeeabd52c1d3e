"""Numbers for Prometheus.

With several HTTP processes each writes its numbers to files of a common folder, which
`irene.serve.http.server` names in `METRICS_FOLDER`, and any of them gives
all.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from irene.serve.http.settings import METRICS_FOLDER

if TYPE_CHECKING:
    from irene.serve.computing.pool import Pool
    from irene.serve.store import Store

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SECONDS = (0.001, 0.005, 0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0)
ORIGINS = ("memory", "store", "computed")
LOOK_S = 5.0
if METRICS_FOLDER in os.environ:
    # No process of ours forks: to ask the system who we are takes longer than to count.
    values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
        partial(int, os.getpid())
    )


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._pool: Pool | None = None
        self.requests = Counter(
            "irene_requests", "Requests by route, method and status",
            ("route", "method", "status"), registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "irene_request_seconds", "Time of a request, s", ("route",),
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.answers = Counter(
            "irene_answers", "Answers by where they came from", ("origin",),
            registry=self.registry,
        )  # fmt: skip
        self.computations = Histogram(
            "irene_computation_seconds", "Time of a computation, s", buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.ended = Counter(
            "irene_computing_processes_ended",
            "Computing processes that were ended, by reason", ("reason",),
            registry=self.registry,
        )  # fmt: skip
        live = partial(Gauge, registry=self.registry, multiprocess_mode="livesum")
        last = partial(Gauge, registry=self.registry, multiprocess_mode="mostrecent")
        self.waiting = live(
            "irene_computations_waiting", "Computations that wait for a process"
        )
        self.running = live("irene_computations_running", "Computations that run now")
        self.processes = live(
            "irene_computing_processes", "Computing processes that are there"
        )
        self.streams = live("irene_event_streams", "Event streams that are open")
        self.jobs = last("irene_jobs", "Jobs by state", ("state",))
        self.store_bytes = last("irene_store_bytes", "What the database takes")
        self.disk_free_bytes = last(
            "irene_disk_free_bytes", "What is free where the data folder is"
        )
        self._looked = 0.0
        self._origins = {each: self.answers.labels(each) for each in ORIGINS}
        self._children: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: As it is declared, so that there are few.
            method: GET, POST, ….
            status: What it was answered with.
            seconds: How long it took, s.
        """
        method = method if method in METHODS else "other"
        key = (route, method, status)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = (
                self.requests.labels(route, method, str(status)),
                self.seconds.labels(route),
            )
        found[0].inc()
        found[1].observe(seconds)

    def answer(self, origin: str, seconds: float) -> None:
        """Count an answer.

        Args:
            origin: `memory`, `store` or `computed`.
            seconds: Time of the computation, s.
        """
        self._origins[origin].inc()
        if origin == "computed":
            self.computations.observe(seconds)

    def process_ended(self, reason: str) -> None:
        """Count a computing process that was ended."""
        self.ended.labels(reason).inc()

    def follow(self, pool: Pool) -> None:
        """Show what a pool is doing, at the time of looking."""
        self._pool = pool

    def look(self, store: Store, folder: Path) -> None:
        """Take in how the jobs, the store and the disk are, every few seconds.

        Args:
            store: The database.
            folder: The data folder.
        """
        from irene.serve.store.job_records import JobRecords  # not at the door

        if time.monotonic() < self._looked + LOOK_S:
            return
        self._looked = time.monotonic()
        self.disk_free_bytes.set(shutil.disk_usage(folder).free)
        self.store_bytes.set(store.size_bytes())
        for state, number in JobRecords(store.engine).count().items():
            self.jobs.labels(state).set(number)

    def page(self) -> tuple[bytes, str]:
        """Everything as Prometheus reads it, and its media type."""
        if self._pool is not None:
            self.waiting.set(self._pool.waiting)
            self.running.set(self._pool.running)
            self.processes.set(len(self._pool.processes))
        registry = self.registry
        if os.environ.get(METRICS_FOLDER):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST
