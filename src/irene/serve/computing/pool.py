"""A few computing processes: asked in turn, ended when they take too long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from irene import errors
from irene.serve.computing.frames import pack, receive_frame
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits

__all__ = ["Pool", "Reply"]

logger = logging.getLogger(__name__)
START_S = 600.0
"""Even a machine that is very busy has loaded the libraries by then, s."""
BACK_OFF_S = 2.0
LARGEST_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a process.

    Attributes:
        body: The document, or a table.
        seconds: How long it took, s.
    """

    body: bytes
    seconds: float


class Pool:
    """Processes that answer questions.

    Args:
        size: How many.
        limits: Time, memory, and how many questions may wait.
        hub: Whether they may ask the Hugging Face hub.
        on_end: Told why a process was ended: `time`, `memory` or `lost`.
    """

    def __init__(
        self,
        size: int,
        limits: Limits,
        *,
        hub: bool = False,
        on_end: Callable[[str], None] | None = None,
    ) -> None:
        self.size = size
        self.limits = limits
        self.hub = hub
        self.waiting = 0
        self.running = 0
        self.processes: set[_Process] = set()
        self._on_end = on_end or (lambda reason: None)
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._long = asyncio.Semaphore(max(1, size - 1))
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._first = asyncio.Event()

    def start(self) -> None:
        """Begin to start the processes, the first one alone: so it is ready sooner."""
        self._begin(self._start_all())

    @property
    def is_ready(self) -> bool:
        """Whether a process has become ready and questions find one."""
        return self._first.is_set() and bool(self.processes)

    async def ready(self) -> None:
        """Wait for the first process."""
        await self._first.wait()

    async def ask(
        self,
        question: str,
        arguments: Mapping[str, Any],
        *,
        is_long: bool = False,
        on_begin: Callable[[], None] = lambda: None,
    ) -> Reply:
        """Ask one process.

        Args:
            question: A key of `irene.serve.computing.questions.QUESTIONS`.
            arguments: As the question wants them.
            is_long: Whether it may take long; one process is kept for the others.
            on_begin: Called when the waiting is over.

        Raises:
            IreneError: The question cannot be answered.
            Problem: Too many are waiting, or it took too long.
        """
        if self.waiting >= self.limits.queue:
            raise Problem(
                503,
                f"{self.waiting} computations are waiting already: ask again later",
                {"Retry-After": "2"},
            )
        async with contextlib.AsyncExitStack() as stack:
            self.waiting += 1
            try:
                if is_long:
                    await stack.enter_async_context(self._long)
                process = await self._idle.get()
            finally:
                self.waiting -= 1
            on_begin()
            return await self._ask(process, question, arguments)

    async def _ask(
        self, process: _Process, question: str, arguments: Mapping[str, Any]
    ) -> Reply:
        started = time.monotonic()
        keep = False
        self.running += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                head, body = await process.ask(question, arguments)
            keep = not head.get("last")
        except TimeoutError:
            self._on_end("time")
            raise Problem(
                504,
                f"this took longer than {self.limits.seconds:g} s and was ended: ask "
                "for less (fewer values, a smaller model), or submit it as a job",
            ) from None
        except (asyncio.IncompleteReadError, OSError):
            self._on_end("lost")
            raise Problem(
                503, "the computing process was lost: ask again", {"Retry-After": "5"}
            ) from None
        finally:
            self.running -= 1
            if keep:
                self._idle.put_nowait(process)
            else:
                self._replace(process)
        if "error" in head:
            raise self._error(head)
        return Reply(body, time.monotonic() - started)

    def _error(self, head: Mapping[str, Any]) -> errors.IreneError:
        kind, message = head["error"], head["message"]
        if kind == "memory":
            self._on_end("memory")
            return errors.LimitError(
                "this needs more memory than the server gives to a computation: ask "
                f"for a smaller size ({message})"
            )
        known = getattr(errors, kind, None)
        if known is None:
            return Problem(500, f"unexpected {message}: this is a bug in irene")
        found: errors.IreneError = known(message)
        return found

    def _replace(self, process: _Process) -> None:
        self.processes.discard(process)
        process.kill()
        self._begin_one()

    def _begin_one(self) -> None:
        if not self._stopped:
            self._begin(self._start_one())

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_all(self) -> None:
        await self._start_one()
        for _ in range(self.size - 1):
            self._begin_one()

    async def _start_one(self) -> None:
        while not self._stopped:
            process = _Process(self.limits, self.hub)
            self.processes.add(process)
            try:
                async with asyncio.timeout(START_S):
                    await process.start()
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                logger.warning("a computing process did not start: %r", error)
                process.kill()
                self.processes.discard(process)
                await asyncio.sleep(BACK_OFF_S)
                continue
            self._idle.put_nowait(process)
            self._first.set()
            return

    async def stop(self) -> None:
        """End all processes."""
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in list(self.processes):
            process.kill()
        await asyncio.gather(*(each.ended() for each in self.processes))
        self.processes.clear()


class _Process:
    """One process, from start to end."""

    def __init__(self, limits: Limits, hub: bool) -> None:
        self.limits = limits
        self.hub = hub
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it is warm."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if not self.hub:
            environment["HF_HUB_OFFLINE"] = "1"
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "irene.serve.computing.worker",
            str(self.limits.seconds), str(self.limits.memory_bytes),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            cwd="/", env=environment, limit=LARGEST_HEAD,
        )  # fmt: skip
        assert self.process.stdout is not None
        await receive_frame(self.process.stdout)

    async def ask(
        self, question: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a question and wait for the answer."""
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(pack({"question": question, "arguments": arguments}))
        await self.process.stdin.drain()
        return await receive_frame(self.process.stdout)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    async def ended(self) -> None:
        """Wait for its end."""
        if self.process is not None:
            await self.process.wait()
