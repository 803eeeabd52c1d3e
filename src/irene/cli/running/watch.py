"""`irene watch`: what an inference server uses per token, while it runs."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.options import add_parameters, add_table, values_of
from irene.cli.output import say
from irene.cli.running.monitor import exporting
from irene.errors import UsageError
from irene.parameters import Asked, Parameter, parameters_of, read
from irene.spec import SERVING, RunSpec

if TYPE_CHECKING:
    from irene.account.served.requests import Requests, Shared
    from irene.account.served.server_counts import Server
    from irene.account.served.watching import Watch
    from irene.analyse.served import Expecting, Seen
    from irene.measure.windows.exported import Figure

USAGE = "URL [options]"
EXAMPLES = """\
Reads the metrics of vLLM, SGLang, TGI, TensorRT-LLM and llama.cpp. Single requests, and
the tokens of Ollama, are known where requests go through irene (--proxy) or are written
down as the server answers them, a line of JSON each (--requests). With --on, what is
predicted stands beside it.

examples:
  irene watch http://localhost:8000
  irene watch http://localhost:8000 --on h100 --quantization fp8
  irene watch http://localhost:11434 --proxy 11435
  irene watch http://localhost:8000 --requests answers.jsonl
  irene watch http://gpu7:8000 --meters prometheus:http://gpu7:9400/metrics
  irene watch http://localhost:8080 --json --seconds 60 >> energy.jsonl
  irene watch http://localhost:8000 --prometheus 9102
"""
HERE = ("localhost", "127.0.0.1", "::1")
LAST = 100
"""Requests that are told of as the last ones."""
SHORTEST_S = 1e-3
PORT = Asked(metavar="PORT", least=0)


@dataclass(frozen=True, slots=True)
class Watching:
    """How a server is watched.

    Attributes:
        url: Of the server, as http://localhost:8000.
        every: Seconds between two looks.
        seconds: End after N seconds.
        meters: Meters of the machine that serves, as irene doctor lists them; auto are
            those here.
        on: Predict for this machine beside it.
        proxy: Pass requests on from this port of this machine to the server; 0 for a
            free one.
        requests: A file to which requests are written when they end; - for standard
            input.
        wait: Seconds that a request may be told late; longer than most take.
        json: A line of JSON at every look.
        prometheus: Answer /metrics on this port meanwhile; 0 for a free one.
        otlp: Send to an OpenTelemetry collector meanwhile.
    """

    url: Annotated[str, Asked(word=True, metavar="URL")]
    every: Annotated[float, Asked(metavar="S", least=SHORTEST_S)] = 2.0
    seconds: Annotated[float | None, Asked(metavar="N", least=SHORTEST_S)] = None
    meters: Annotated[str, Asked(metavar="NAMES")] = "auto"
    on: Annotated[str | None, Asked(metavar="MACHINE")] = None
    proxy: Annotated[int | None, PORT] = None
    requests: Annotated[str | None, Asked(metavar="FILE")] = None
    wait: Annotated[float, Asked(metavar="S", least=0)] = 60.0
    json: bool = False
    prometheus: Annotated[int | None, PORT] = None
    otlp: Annotated[str | None, Asked(metavar="URL")] = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_table(parser, Watching)
    add_parameters(parser, _of_servings(), positional="")


def _of_servings() -> list[Parameter]:
    wanted = parameters_of(RunSpec)
    return [p for p in wanted if p.name == "model" or p.asked.group == SERVING]


def run(options: argparse.Namespace) -> int:
    """Look again and again, until the time is over or somebody stops it."""
    from irene.account.served.server_counts import Server
    from irene.account.served.watching import Watch
    from irene.measure.windows.exported import Exported
    from irene.meters.sampling.sampler_process import SamplerProcess

    asked = read(Watching, values_of(options, parameters_of(Watching)))
    server = Server(asked.url)
    expecting = _expecting(asked, values_of(options, _of_servings()), server)
    with ExitStack() as stack:
        requests = _requests(asked)
        meters = SamplerProcess(_meters(asked, server), min(0.5, asked.every))
        sampler = stack.enter_context(meters)
        watch = Watch(server, sampler, stack.enter_context(requests), asked.wait)
        screen = _Screen(asked, watch, expecting)
        power = Exported(sampler)
        shown = exporting("watch", asked, lambda: [*power(), *screen.figures()])
        with shown, suppress(KeyboardInterrupt):
            _look_on(asked, screen)
        screen.end()
    return 0


def _look_on(asked: Watching, screen: _Screen) -> None:
    end_s = time.monotonic() + (asked.seconds or math.inf)
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(asked.every, left_s))
        screen.look()


def _requests(asked: Watching) -> AbstractContextManager[Requests | None]:
    """Who tells single requests, if somebody does."""
    from irene.account.served.requests import RequestLines

    if asked.requests is None:
        return nullcontext() if asked.proxy is None else _door(asked.url, asked.proxy)
    if asked.proxy is not None:
        raise UsageError("give --requests or --proxy, not both")
    return nullcontext(RequestLines(asked.requests))


@contextmanager
def _door(url: str, port: int) -> Iterator[Requests]:
    from irene.account.served.proxy import proxied

    with proxied(url, port) as (proxy, port):
        say(f"irene watch: ask http://localhost:{port}")
        yield proxy


def _meters(asked: Watching, server: Server) -> list[str]:
    """Names of the meters: of the server itself where it is one, else of its host."""
    import socket
    from urllib.parse import urlsplit

    from irene.meters.finding import names_in

    if asked.meters != "auto":
        return list(names_in(asked.meters))
    own = server.energy_meter()
    if own:
        return [own]
    host = urlsplit(asked.url).hostname
    if host not in (*HERE, socket.gethostname()):
        raise UsageError(
            f"{host} is another machine, and meters here say nothing of it: name its "
            f"own, as --meters prometheus:http://{host}:9400/metrics"
        )
    return ["auto"]


def _expecting(
    asked: Watching, given: dict[str, Any], server: Server
) -> Expecting | None:
    if asked.on is None:
        if set(given) - {"model"}:
            raise UsageError("what is predicted needs a machine: give --on")
        return None
    from irene.analyse.served import Expecting
    from irene.trace.sources import locate

    counts = server.read()
    model = given.pop("model", counts.model)
    if not model:
        raise UsageError("the server does not say which model it runs: give --model")
    try:
        locate(model)
    except UsageError as error:
        raise type(error)(f"{error} (--model)") from error
    spec = RunSpec(model, phase="generate", **given)
    return Expecting(spec, asked.on, counts.engine)


class _Screen:
    """Looks, and shows what it sees: JSON lines, a screen that changes, or lines."""

    def __init__(
        self, asked: Watching, watch: Watch, expecting: Expecting | None
    ) -> None:
        self._asked, self._watch, self._expecting = asked, watch, expecting
        self._seen: Seen | None = None
        self._last: deque[Shared] = deque(maxlen=LAST)
        self._live: Any = None
        if sys.stdout.isatty() and not asked.json:
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()

    def look(self) -> None:
        """Look once, and show it."""
        from irene.analyse.served import seen_by

        found = seen_by(self._watch, self._expecting)
        for problem in self._watch.problems:
            say(f"irene watch: {problem}")
        if found is not None:
            self._show(found.settled(time.time()))

    def end(self) -> None:
        """Share what is left, and leave the screen as it is."""
        if self._seen is not None and self._watch.sharing is not None:
            self._show(self._seen.settled(math.inf))
        if self._live is not None:
            self._live.stop()

    def figures(self) -> list[Figure]:
        """What Prometheus and OpenTelemetry are told."""
        from irene.show.served import served_figures

        return served_figures(self._seen, self._watch.counts.model)

    def _show(self, seen: Seen) -> None:
        from irene.show.served import served_document, served_lines

        self._seen = seen
        self._last.extend(seen.requests)
        if self._asked.json:
            document = served_document(seen, self._asked.url)
            print(json.dumps(document, allow_nan=False), flush=True)
            return
        lines = served_lines(seen, self._asked.url, self._asked.on, self._last)
        if self._live is None:
            print(*lines, sep="\n", flush=True)
        else:
            from rich.text import Text

            self._live.update(Text("\n".join(lines)), refresh=True)
