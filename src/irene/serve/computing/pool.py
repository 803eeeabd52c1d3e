"""A few computing processes: asked in turn, ended when they take too long."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from irene import errors
from irene.serve.computing.moments import (
    Moment,
    Moments,
    Reply,
    Take,
    give,
    message,
    pass_on,
    refuse,
)
from irene.serve.computing.turns import Turns, Waiting
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits
from irene.serve.http.tracing import span
from irene.work.bounds import Bounds
from irene.work.child import Child
from irene.work.task import Outcome, Task

logger = logging.getLogger(__name__)
WORKER = "irene.serve.computing.worker"
SEVERAL = "answer_several"
START_S = 600.0
"""Even a machine that is very busy has loaded the libraries by then, s."""
BACK_OFF_S = 2.0
Prepared = AbstractContextManager[Mapping[str, Any]]

KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "TMPDIR", "CUDA_VISIBLE_DEVICES",
    "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SYSTEMROOT",
    "IRENE_CPU_TDP_W", "IRENE_DATA_DIR", "IRENE_HOME", "IRENE_PROC", "IRENE_PROC_ROOT",
    "IRENE_SYSFS", "IRENE_SYSFS_ROOT",
)  # fmt: skip
"""What of the server's environment its processes see: no token, no password."""
HUB_VARIABLES = (
    "HTTPS_PROXY",
    "https_proxy",
    "HF_ENDPOINT",
    "HF_HOME",
    "SSL_CERT_FILE",
)


def environment(hub: bool) -> dict[str, str]:
    """The environment of a process that works for strangers.

    Args:
        hub: Whether it may ask the Hugging Face hub.
    """
    names = (*KEPT_VARIABLES, *(HUB_VARIABLES if hub else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    if not hub:
        kept |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return kept | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def error_of(outcome: Outcome, limits: Limits, advice: str = "") -> errors.IreneError:
    """What a client is told of work that was refused, or was past its limits.

    Args:
        outcome: What became of it.
        limits: Of the server.
        advice: What else to do than to ask for less.
    """
    smaller = f"ask for a smaller model or size {advice}".rstrip()
    if outcome.fault == "timeout":
        return Problem(504, f"{outcome.problem}, which is the limit: {smaller}")
    if outcome.fault in ("memory", "killed"):
        bound = f"needs more memory than {limits.memory_bytes:,} bytes"
        return Problem(413, f"{bound}: {smaller} ({outcome.problem[:300]})")
    known = getattr(errors, outcome.error, None)
    if known is not None:
        found: errors.IreneError = known(outcome.problem)
        return found
    if outcome.error:
        return Problem(500, f"unexpected {outcome.error}: this is a bug in irene")
    return Problem(500, outcome.problem)


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
        self.running = 0
        self.processes: set[Child] = set()
        self._on_end = on_end or (lambda reason: None)
        self._idle: list[Child] = []
        self._turns: Turns[Child] = Turns(limits.queue, limits.client_computations)
        self._moments = Moments(limits.queue, limits.client_computations)
        self._carriers = 0
        # One waits for each process; more, for those that are being replaced.
        self._threads = ThreadPoolExecutor(2 * size + 1, "computing")
        self._long = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._first = asyncio.Event()

    def start(self) -> None:
        """Begin to start the processes, the first one alone: so it is ready sooner."""
        self._begin(self._start_all())

    @property
    def waiting(self) -> int:
        """How many questions wait for a process."""
        return len(self._turns) + len(self._moments)

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
        arguments: Mapping[str, Any] | Callable[[], Prepared],
        *,
        is_long: bool = False,
        client: str = "",
        on_begin: Callable[[], None] = lambda: None,
    ) -> Reply:
        """Ask one process.

        Args:
            question: As `irene.serve.computing.questions.ask` has it.
            arguments: As the question wants them, or what prepares them when it
                begins: who waits holds nothing large.
            is_long: Whether it may take long; one process is kept for the others.
            client: Who asks; clients take turns.
            on_begin: Called when the waiting is over.

        Raises:
            IreneError: The question cannot be answered.
            Problem: Too many are waiting, or it took too long.
        """
        with span("wait for a process"):
            process = await self._turn(Waiting(client, is_long))
        try:
            on_begin()
            with span(f"compute {question}"):
                return await self._ask(process, question, arguments)
        finally:
            self._long -= is_long
            self._hand_out()

    def ask_soon(
        self,
        question: str,
        arguments: Mapping[str, Any],
        client: str = "",
        take: Take = pass_on,
    ) -> asyncio.Future[Any]:
        """Ask what takes a moment, in one message with what others ask meanwhile.

        Args:
            question: A key of `irene.questions.QUESTIONS`.
            arguments: As the question wants them.
            client: Who asks; clients take turns.
            take: Takes the answer, and says what becomes of it.

        Returns:
            What has become of the answer; None where it takes longer: it is to be asked
            alone.

        Raises:
            IreneError: The question cannot be answered.
        """
        asked = Moment(client, False, question=question, arguments=arguments, take=take)
        self._moments.join(asked)
        if self._carriers < self.size:
            self._carriers += 1
            self._begin(self._carry())
        return asked.turn

    async def _carry(self) -> None:
        """Take moments to a process, those that have come by then, while there are."""
        try:
            while len(self._moments):
                await self._carry_some()
        finally:
            self._carriers -= 1

    async def _carry_some(self) -> None:
        some: list[Moment] = []
        try:
            process = await self._turn(Waiting("", False))
            some = self._moments.some()
            try:
                reply = await self._ask(process, SEVERAL, message(some), SEVERAL)
            finally:
                self._hand_out()
            give(some, reply, self._error)
        except errors.IreneError as error:
            refuse(some or self._moments.some(), error)
        except BaseException:
            refuse(some, Problem(503, "the server is stopping", again_s=5))
            raise

    async def _turn(self, waiting: Waiting[Child]) -> Child:
        """A process, when one is free and it is this question's turn."""
        self._turns.join(waiting)
        self._hand_out()
        turn = waiting.turn
        try:
            async with asyncio.timeout(self.limits.waiting_s):
                return await turn
        except BaseException as error:
            self._turns.leave(waiting)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._long -= waiting.is_long
                self._free(turn.result())  # it came as its client left
            if not isinstance(error, TimeoutError):
                raise
        words = f"no process was free for {self.limits.waiting_s:g} s: ask again later"
        raise Problem(503, words, again_s=10)

    def _hand_out(self) -> None:
        """Give free processes to those whose turn it is."""

        def may(waiting: Waiting[Child]) -> bool:
            has_place = not waiting.is_long or self._long < max(1, self.size - 1)
            return has_place and not waiting.turn.done()

        while self._idle and (waiting := self._turns.next(may)) is not None:
            self._long += waiting.is_long
            waiting.turn.set_result(self._idle.pop())

    def _free(self, process: Child) -> None:
        self._idle.append(process)
        self._hand_out()

    async def _ask(
        self,
        process: Child,
        question: str,
        arguments: Mapping[str, Any] | Callable[[], Prepared],
        work: str = "answer",
    ) -> Reply:
        bounds = Bounds(wall_s=self.limits.seconds)
        keep = True
        self.running += 1
        try:
            with ExitStack() as stack:
                if callable(arguments):
                    arguments = await asyncio.to_thread(
                        stack.enter_context, arguments()
                    )
                argument = {"question": question, "arguments": arguments}
                keep = False
                outcome = await self._run(
                    process, Task(question, f"{WORKER}:{work}", argument, bounds)
                )
                keep = outcome.fault in ("", "refused")
        finally:
            self.running -= 1
            if keep:
                self._idle.append(process)
            else:
                self._replace(process)
        if outcome.payload is None:
            raise self._error(outcome)
        return Reply(outcome.payload, outcome.duration_s)

    async def _run(self, process: Child, task: Task) -> Outcome:
        def wait() -> Outcome:
            process.begin(task)
            outcome = process.wait()
            assert outcome is not None
            return outcome

        return await asyncio.get_running_loop().run_in_executor(self._threads, wait)

    def _error(self, outcome: Outcome) -> errors.IreneError:
        """What a client is told of a computation that gave no answer."""
        reason = {"refused": "", "timeout": "time", "memory": "memory"}.get(
            outcome.fault, "lost"
        )
        if reason:
            self._on_end(reason)
        if reason == "lost":
            words = "the computing process was lost: ask again"
            return Problem(503, words, again_s=5)
        return error_of(outcome, self.limits, "or submit it as a job")

    def _replace(self, process: Child) -> None:
        self.processes.discard(process)
        process.kill()
        if not self._stopped:
            self._threads.submit(process.end, 0.0)
            self._begin(self._start_one())

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_all(self) -> None:
        await self._start_one()
        for _ in range(self.size - 1):
            self._begin(self._start_one())

    async def _start_one(self) -> None:
        argument = {"memory_bytes": self.limits.memory_bytes}
        task = Task("warm-up", f"{WORKER}:warm_up", argument, Bounds(wall_s=START_S))
        while not self._stopped:
            process = Child(
                environment=environment(self.hub), folder=Path("/"), keeps_errors=False
            )
            self.processes.add(process)
            outcome = await self._run(process, task)
            if not outcome.fault:
                self._free(process)
                self._first.set()
                return
            logger.warning("a computing process did not start: %s", outcome.problem)
            self.processes.discard(process)
            self._threads.submit(process.end, 0.0)
            await asyncio.sleep(BACK_OFF_S)

    async def stop(self) -> None:
        """End all processes."""
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()
        for process in self.processes:
            process.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self.processes:
            self._threads.submit(process.end, 0.0)
        await asyncio.to_thread(self._threads.shutdown)
        self.processes.clear()
        while some := self._moments.some():
            refuse(some, Problem(503, "the server is stopping", again_s=5))
