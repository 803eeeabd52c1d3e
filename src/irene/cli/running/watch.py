"""`irene watch`: what an inference server uses per token, while it runs."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from irene.cli.options import add_parameters, number, values_of
from irene.errors import IreneError, UsageError
from irene.parameters import Parameter, parameters_of
from irene.show.text import plain
from irene.spec import SERVING, RunSpec

if TYPE_CHECKING:
    from irene.account.served.engines import Server
    from irene.account.served.intervals import Interval, Split
    from irene.account.served.watching import Watch
    from irene.analyse.served import Expected, Expecting
    from irene.measure.windows.exported import Figure

__all__ = ["configure", "run"]

USAGE = "URL [options]"
EXAMPLES = """\
Reads the metrics of vLLM, SGLang, TGI, TensorRT-LLM and llama.cpp; Ollama counts no
tokens, so that only its power is told. With --on, what is predicted stands beside it.

examples:
  irene watch http://localhost:8000
  irene watch http://localhost:8000 --on h100 --quantization fp8
  irene watch http://gpu7:8000 --meters prometheus:http://gpu7:9400/metrics
  irene watch http://localhost:8080 --json --seconds 60 >> energy.jsonl
  irene watch http://localhost:8000 --prometheus 9102
"""
SCHEMA = "irene.watch/1"
HERE = ("localhost", "127.0.0.1", "::1")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add("url", metavar="URL", help="of the server, as http://localhost:8000")
    add("--every", type=number, default=2.0, metavar="S",
        help="seconds between two looks (default 2)")  # fmt: skip
    add("--seconds", type=number, metavar="N", help="end after N seconds")
    add("--meters", default="auto", metavar="NAMES",
        help="meters of the machine that serves, as irene doctor lists them (default "
        "auto: those here)")  # fmt: skip
    add("--on", metavar="MACHINE", help="predict for this machine beside it")
    add("--json", action="store_true", help="a line of JSON at every look")
    add("--prometheus", type=int, metavar="PORT",
        help="answer /metrics on this port meanwhile; 0 for a free one")  # fmt: skip
    add("--otlp", metavar="URL",
        help="send to an OpenTelemetry collector meanwhile")  # fmt: skip
    add_parameters(parser, _of_servings(), positional="")


def _of_servings() -> list[Parameter]:
    wanted = parameters_of(RunSpec)
    return [p for p in wanted if p.name == "model" or p.asked.group == SERVING]


def run(options: argparse.Namespace) -> int:
    """Look again and again, until the time is over or somebody stops it."""
    from irene.account.served.engines import Server
    from irene.account.served.watching import Watch
    from irene.meters.sampling.sampler_process import SamplerProcess

    if not options.every > 0 or (options.seconds is not None and options.seconds <= 0):
        raise UsageError("--every and --seconds are above zero")
    server = Server(options.url)
    expecting = _expecting(options, server)
    with SamplerProcess(_meters(options, server), min(0.5, options.every)) as sampler:
        watch = Watch(server, sampler)
        screen = _Screen(options, watch, expecting)
        with _exporting(options, screen, sampler), suppress(KeyboardInterrupt):
            _look_on(options, screen)
    screen.end()
    return 0


def _look_on(options: argparse.Namespace, screen: _Screen) -> None:
    end_s = time.monotonic() + (options.seconds or math.inf)
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(options.every, left_s))
        screen.look()


def _meters(options: argparse.Namespace, server: Server) -> list[str]:
    """Names of the meters: of the server itself where it is one, else of its host."""
    import socket
    from urllib.parse import urlsplit

    from irene.meters.finding import names_in

    if options.meters != "auto":
        return list(names_in(options.meters))
    own = server.energy_meter()
    if own:
        return [own]
    host = urlsplit(options.url).hostname
    if host not in (*HERE, socket.gethostname()):
        raise UsageError(
            f"{host} is another machine, and meters here say nothing of it: name its "
            f"own, as --meters prometheus:http://{host}:9400/metrics"
        )
    return ["auto"]


def _expecting(options: argparse.Namespace, server: Server) -> Expecting | None:
    given = values_of(options, _of_servings())
    if options.on is None:
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
    return Expecting(spec, options.on, counts.engine)


@contextmanager
def _exporting(
    options: argparse.Namespace, screen: _Screen, sampler: Any
) -> Iterator[None]:
    from irene.measure.windows.exported import Exported, to_otlp, to_prometheus

    power = Exported(sampler)

    def figures() -> list[Figure]:
        return [*power(), *screen.figures()]

    with ExitStack() as stack:
        if options.prometheus is not None:
            port = stack.enter_context(to_prometheus(figures, options.prometheus))
            where = f"http://localhost:{port}/metrics"
            print(f"irene watch: {where}", file=sys.stderr, flush=True)
        if options.otlp:
            stack.enter_context(to_otlp(figures, options.otlp))
        yield


@dataclass
class _Seen:
    """What a look has found."""

    now: Interval
    total: Interval
    expected: Expected | None = None
    split: Split | None = None
    costs_source: str = ""
    verdict: str = ""


class _Screen:
    """Looks, and shows what it sees: JSON lines, a screen that changes, or lines."""

    def __init__(
        self, options: argparse.Namespace, watch: Watch, expecting: Expecting | None
    ) -> None:
        self._options, self._watch, self._expecting = options, watch, expecting
        self._seen: _Seen | None = None
        self._note = ""
        self._live: Any = None
        self._show: Callable[[], None] = self._print_lines
        if options.json:
            self._show = self._print_json
        elif sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()
            self._show = self._redraw

    def look(self) -> None:
        """Look once, and show it."""
        watch = self._watch
        found, now = watch.look(), watch.recent()
        if found is None:
            print(f"irene watch: {plain(watch.problem)}", file=sys.stderr)
        elif now is not None and watch.total is not None:
            self._seen = self._compared(_Seen(now, watch.total))
            self._show()

    def end(self) -> None:
        """Leave the screen as it is."""
        if self._live is not None:
            self._live.stop()

    def _compared(self, seen: _Seen) -> _Seen:
        from irene.account.served.intervals import split
        from irene.analyse.served import verdict

        costs = self._watch.costs()
        if self._expecting is not None:
            try:
                seen.expected = self._expecting.expected(seen.now)
            except IreneError as error:
                self._note = str(error)
        if seen.expected is not None:
            costs = costs or seen.expected.costs
            seen.verdict = verdict(seen.now, seen.expected)
        if costs is not None and math.isfinite(seen.now.tokens):
            seen.split, seen.costs_source = split(seen.now, costs), costs.source
        return seen

    # For machines -----------------------------------------------------------------

    def figures(self) -> list[Figure]:
        """What Prometheus and OpenTelemetry are told, with the names of GenAI."""
        from irene.measure.windows.exported import Figure

        seen, unknown = self._seen, math.nan
        labels = {"gen_ai.request.model": self._watch.counts.model}
        total = asdict(seen.total) if seen else {}
        tokens = [
            Figure(
                "irene.server.usage", "{token}", total.get(f"{kind}_tokens", 0.0),
                {**labels, "gen_ai.token.type": name}, grows=True,
            )
            for kind, name in (
                ("prompt", "input"), ("cached", "cached_input"), ("output", "output")
            )
        ]  # fmt: skip
        per_token = seen.now.j_per_output_token if seen else unknown
        predicted = unknown
        if seen and seen.expected:
            predicted = seen.expected.j_per_output_token.value
        name = "irene.server.energy"
        return [
            Figure(name, "J", total.get("energy_j", 0.0), labels, grows=True), *tokens,
            Figure(f"{name}.output", "J/{token}", per_token, labels),
            Figure(f"{name}.output.predicted", "J/{token}", predicted, labels),
        ]  # fmt: skip

    def _document(self) -> dict[str, Any]:
        seen, counts = self._seen, self._watch.counts
        assert seen is not None
        return {
            "schema": SCHEMA, "time": time.time(), "url": self._options.url,
            "engine": counts.engine, "model": counts.model,
            "covers": list(self._watch.covers), "now": seen.now.to_dict(),
            "total": seen.total.to_dict(),
            "split": asdict(seen.split) if seen.split else None,
            "split_by": seen.costs_source or None,
            "predicted": seen.expected.to_dict() if seen.expected else None,
            "verdict": seen.verdict or None, "note": self._note or None,
        }  # fmt: skip

    def _print_json(self) -> None:
        print(json.dumps(self._document(), allow_nan=False), flush=True)

    # For people -------------------------------------------------------------------

    def _print_lines(self) -> None:
        print(*self._lines(), sep="\n", flush=True)

    def _redraw(self) -> None:
        from rich.text import Text

        self._live.update(Text("\n".join(self._lines())), refresh=True)

    def _lines(self) -> list[str]:
        seen, counts = self._seen, self._watch.counts
        assert seen is not None
        rows = {
            "power": f"{_number(seen.now.power_w)} W, {', '.join(self._watch.covers)}",
            "requests": f"{_number(seen.now.running)} at a time, "
            f"{_number(seen.now.waiting)} waiting",
            "tokens": _tokens(seen.now),
            "energy": _energies(seen.now),
            "of which": _parts(seen),
            "predicted": self._predicted(seen),
            "all in all": f"{_energies(seen.total)} in {seen.total.seconds:.0f} s",
        }
        title = " · ".join(filter(None, (counts.engine, counts.model)))
        lines = [f"{plain(title)} · {plain(self._options.url)}"]
        lines += [f"  {name:<11}{plain(text)}" for name, text in rows.items() if text]
        if math.isnan(seen.now.output_tokens):
            lines.append(f"  note       {counts.engine} counts no tokens")
        return lines

    def _predicted(self, seen: _Seen) -> str:
        if self._expecting is None:
            return ""
        if seen.expected is None:
            unknown = "lengths are not known yet: give --prompt and --output"
            return self._note or unknown
        span = seen.expected.j_per_output_token
        ends = f"({_number(span.low)} – {_number(span.high)})"
        on = self._options.on
        told = f"{_number(span.value)} J {ends} per output token on {on}"
        return f"{told}: {seen.verdict}"


def _number(value: float) -> str:
    return f"{value:,.3g}" if math.isfinite(value) and value < 1000 else _large(value)


def _large(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "–"


def _tokens(now: Interval) -> str:
    if math.isnan(now.output_tokens):
        return ""
    prompts = now.prompt_tokens + now.cached_tokens
    cached = f", {100 * now.cached_tokens / prompts:.0f} % cached" if prompts else ""
    out = _number(now.output_tokens_per_s)
    return f"{out} per s out, {_number(prompts / now.seconds)} per s in{cached}"


def _energies(row: Interval) -> str:
    energies = {
        "J per output token": row.j_per_output_token, "J per token": row.j_per_token,
        "J per request": row.j_per_request,
    }  # fmt: skip
    known = [f"{_number(j)} {unit}" for unit, j in energies.items() if math.isfinite(j)]
    return " · ".join(known) or f"{_number(row.energy_j)} J"


def _parts(seen: _Seen) -> str:
    if seen.split is None or not seen.now.energy_j > 0:
        return ""
    names = {"prompt_j": "prompts", "cached_j": "cached prompts",
             "output_j": "answers", "idle_j": "idle"}  # fmt: skip
    shares = {k: 100 * j / seen.now.energy_j for k, j in asdict(seen.split).items()}
    parts = [f"{names[k]} {share:.0f} %" for k, share in shares.items() if share > 0]
    return f"{', '.join(parts)} (by {seen.costs_source} costs)"
