"""The process at the door: takes whoever comes, and answers what it knows.

It has no threads, no store and nothing to compute: whatever strangers ask for, somebody
who asks for what is known is answered at once. All else is passed on, inside, head and
connection; between two requests connections are here.
"""

from __future__ import annotations

import asyncio
import gc
import marshal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import h11
import uvicorn

from irene.serve.answers.memory import MOST_REQUESTS, Form, Memory, form_of
from irene.serve.http.connections import PatientProtocol
from irene.serve.http.exchange import Exchange
from irene.serve.http.fair_loop import FairLoop
from irene.serve.http.gate import Gate
from irene.serve.http.logs import AccessLog, set_up_log
from irene.serve.http.metrics import Metrics
from irene.serve.http.passage import AGAIN_S, ANSWER, ASKED, FORM, Passage
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Settings
from irene.serve.http.tracing import Tracing
from irene.serve.recent import Recent
from irene.work.bounds import allow_files, keep_little_memory

DECIDING = (b"if-none-match", b"accept-encoding")
"""Headers that decide how an answer is sent."""
PATIENCE_S = 5.0
"""How long a request waits to be let in, s."""


class Doorway(Gate):
    """Answers what is known, and passes on the rest.

    Args:
        settings: Of the server.
    """

    def __init__(self, settings: Settings) -> None:
        memory = Memory(settings.limits.memory_answers_bytes)
        tracing = None if settings.otlp_url is None else Tracing(settings.otlp_url)
        super().__init__(settings, memory, Metrics(), AccessLog(), tracing)
        self._forms: Recent[Form, bool] = Recent(MOST_REQUESTS)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()

    async def _go_on(self, exchange: Exchange) -> None:
        line = exchange.line
        assert isinstance(line, DoorProtocol)
        found = await self._moment(exchange, line)
        if found is not None:
            await exchange.give(*found)
            return
        if not await line.pass_on():
            raise Problem(503, "too many want to be answered: ask again", again_s=2)
        exchange.is_passed = True
        exchange.route = "passed on"

    async def _moment(self, exchange: Exchange, line: DoorProtocol) -> Any:
        """The answer to a request of a form that takes a moment inside, from there.

        None if it is none, or takes longer: then it is passed on.
        """
        passage = line.loop.passage
        if exchange.scope["method"] != "GET" or passage is None:
            return None
        form, sizes = form_of(exchange.asked)
        if not self._forms.get(form):
            return None
        line.flow.pause_reading()
        number, turn = next(self._numbers), line.loop.create_future()
        self._asked[number] = turn
        limits = self.settings.limits
        try:
            headers = {n: v for n, v in exchange.headers.items() if n in DECIDING}
            asked = exchange.asked, form, sizes, exchange.client
            told = marshal.dumps((number, headers, asked))
            if not passage.tell(ASKED, told):
                return None
            async with asyncio.timeout(limits.waiting_s + limits.seconds):
                return await turn
        except TimeoutError:
            return None
        finally:
            del self._asked[number]

    def hear(self, kind: bytes, told: bytes) -> None:
        """Take what is told from inside."""
        if kind == ANSWER:
            self.memory.learn(told)
        elif kind == FORM:
            self._forms.put(marshal.loads(told), True)
        else:
            number, found, problem = marshal.loads(told)
            turn = self._asked.get(number)
            if turn is None or turn.done():
                return  # its client has left
            if problem is None:
                turn.set_result(found)
            else:
                turn.set_exception(Problem(*problem))

    def end(self) -> None:
        """Tell all who wait for an answer that there is nobody inside any more."""
        for turn in self._asked.values():
            if not turn.done():
                turn.set_exception(
                    Problem(503, "the server ends: ask again", again_s=2)
                )


class _Heads(h11.Connection):
    """Reads heads; what is behind one waits until it is known who answers it."""

    is_held = False

    def next_event(self) -> Any:
        """What comes next."""
        if self.is_held:
            return h11.NEED_DATA
        event = super().next_event()
        self.is_held = isinstance(event, h11.Request)
        return event


class DoorProtocol(PatientProtocol):
    """A connection at the door; bodies are read inside."""

    def __init__(self, config: uvicorn.Config, *given: Any, **more: Any) -> None:
        super().__init__(config, *given, **more)
        most = config.h11_max_incomplete_event_size
        assert most is not None
        self.conn: _Heads = _Heads(h11.SERVER, most)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # nobody leaves behind what was written

    def _go_on(self) -> None:
        """Go on with what is behind the head, when it is its address's turn."""
        has_more = bool(self.conn.trailing_data[0]) and not self.is_proxy
        rounds = self.loop.lines.rounds
        if not has_more or rounds.may(self.address, self._read_on):
            self._read_on()

    def _read_on(self) -> None:
        self.conn.is_held = False
        self.handle_events()
        self._watch()

    async def pass_on(self) -> bool:
        """Have this request answered inside; False if there is no room for it."""
        self.flow.pause_reading()
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            passage, data = self.loop.passage, self._head() + self.conn.trailing_data[0]
            if self.transport.is_closing():
                return True  # its client has left
            if passage is not None and self.is_drained and self.leave(passage, data):
                self.cycle.disconnected = True
                return True
            await asyncio.sleep(AGAIN_S)
        self.flow.resume_reading()
        return False

    def _head(self) -> bytes:
        scope = self.scope
        target = scope["raw_path"] + (b"?" if scope["query_string"] else b"")
        version = scope["http_version"].encode()
        method = scope["method"].encode()
        first = b"%s %s%s HTTP/%s\r\n" % (
            method, target, scope["query_string"], version,
        )  # fmt: skip
        told = b"".join(b"%s: %s\r\n" % pair for pair in self.headers)
        return first + told + b"\r\n"


class _Config(uvicorn.Config):
    """Has the process serve on a loop of ours."""

    settings: Settings

    def get_loop_factory(self) -> Callable[[], FairLoop]:
        """What makes the loop."""
        return partial(FairLoop, self.settings)


class _Server(uvicorn.Server):
    """Ends with the process inside."""

    def __init__(self, config: uvicorn.Config, app: Doorway, passage: Passage) -> None:
        super().__init__(config)
        self._app, self._passage = app, passage

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at the door, and to what is told from inside."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FairLoop)
        made = partial(DoorProtocol, self.config, self.server_state, {})
        loop.hear(made, self._passage, self._app.hear, self._end)
        gc.collect()
        gc.freeze()  # what is here from the start is garbage never

    def _end(self) -> None:
        self.should_exit = True
        self._app.end()


def stand(
    settings: Settings, options: dict[str, Any], sock: socket.socket, way: socket.socket
) -> None:
    """Serve at the door, in a process of its own, until the one inside ends.

    Args:
        settings: Of the server.
        options: Of uvicorn.
        sock: Listens.
        way: To the process inside.
    """
    set_up_log(settings.json_log)
    keep_little_memory()
    allow_files(settings.limits.connections)
    app = Doorway(settings)
    config = _Config(app, http=DoorProtocol, lifespan="off", **options)
    config.settings = settings
    with suppress(KeyboardInterrupt):
        _Server(config, app, Passage(way)).run([sock])
    app.log.write()
    if app.tracing is not None:
        app.tracing.stop()
