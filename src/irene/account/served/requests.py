"""Single requests of a server: who tells them, and whose energy they took.

One JSON document per request, as servers answer them: what Ollama says at the end of an
answer, `timings` of llama.cpp, `usage` of the API of OpenAI, or plain
`{"start": …, "end": …, "prompt_tokens": …, "cached_tokens": …, "output_tokens": …}`.
"""

from __future__ import annotations

import io
import json
import math
import queue
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from irene.account.served.server_counts import ServerCounts
from irene.account.served.token_energy import Split, TokenCosts, shared
from irene.errors import UsageError

SHORTEST_S = 1e-6
"""Tokens are spread over this time at least, s."""
FORMS = "eval_count (Ollama), timings (llama.cpp), usage (OpenAI) or output_tokens"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered, times in s since 1970; the second may be unknown.

    They are when work on it began, its prompt was read, and it was answered. Tokens of
    the prompt are those that were computed, and those that a cache answered.
    """

    name: str
    begin_s: float
    first_s: float | None
    end_s: float
    prompt_tokens: float
    cached_tokens: float
    output_tokens: float

    @property
    def seconds(self) -> float:
        """How long it took, s."""
        return self.end_s - self.begin_s

    def between(self, begin_s: float, end_s: float) -> Request:
        """With the tokens of some time alone; prompts come first if that is told."""
        read_s, told_s = self.end_s, self.begin_s
        if self.first_s is not None:
            read_s = told_s = self.first_s
        read = _share(self.begin_s, read_s, begin_s, end_s)
        told = _share(told_s, self.end_s, begin_s, end_s)
        return replace(
            self, prompt_tokens=self.prompt_tokens * read,
            cached_tokens=self.cached_tokens * read,
            output_tokens=self.output_tokens * told,
        )  # fmt: skip


def _share(begin_s: float, end_s: float, left_s: float, right_s: float) -> float:
    """How much of a time lies between two others."""
    end_s = max(end_s, begin_s + SHORTEST_S)
    inside_s = min(end_s, right_s) - max(begin_s, left_s)
    return max(0.0, inside_s) / (end_s - begin_s)


# What is told of one ----------------------------------------------------------


def request_of(told: Any, now_s: float) -> Request:
    """What a document in one of the forms above says of a request.

    It ended at `now_s`, s since 1970, if it does not say when.

    Raises:
        UsageError: It tells no tokens, or impossible ones.
    """
    if not isinstance(told, Mapping):
        raise UsageError("it is no JSON object")
    try:
        prompt, cached, output, read_s, told_s = _counts(told)
        end_s = _time_s(told.get("end", told.get("created_at")), now_s)
        begin_s = _time_s(told.get("start"), end_s - read_s - told_s)
        first_s = _time_s(told.get("first_token"), end_s - told_s if told_s else None)
        if read_s + told_s > 0:  # the server's own times know of no queue
            begin_s = max(begin_s, end_s - read_s - told_s)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise UsageError(f"it cannot be read ({error})") from error
    values = (prompt, cached, output, begin_s, end_s)
    if not all(map(math.isfinite, values)) or min(values[:3]) < 0 or begin_s > end_s:
        raise UsageError("its numbers are impossible")
    if first_s is not None:
        first_s = min(max(begin_s, first_s), end_s)
    name = str(told.get("id") or told.get("model") or "")
    computed = max(0.0, prompt - cached)
    return Request(name, begin_s, first_s, end_s, computed, min(prompt, cached), output)


def _counts(told: Mapping[str, Any]) -> tuple[float, float, float, float, float]:
    """Tokens of prompt, of these cached, and of answer; seconds of both."""
    if "eval_count" in told:
        return (
            float(told.get("prompt_eval_count", 0)), 0.0, float(told["eval_count"]),
            1e-9 * told.get("prompt_eval_duration", 0),
            1e-9 * told.get("eval_duration", 0),
        )  # fmt: skip
    if told.get("timings"):
        times = told["timings"]
        cached = float(times.get("cache_n", 0))
        return (
            cached + float(times["prompt_n"]), cached, float(times["predicted_n"]),
            1e-3 * times["prompt_ms"], 1e-3 * times["predicted_ms"],
        )  # fmt: skip
    usage = told.get("usage") or told
    output = usage.get("completion_tokens", usage.get("output_tokens"))
    if output is None and "usage" not in told:
        raise ValueError(f"none of {FORMS}")
    details = usage.get("prompt_tokens_details") or usage
    prompt = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    cached = details.get("cached_tokens") or 0
    return float(prompt), float(cached), float(output or 0), 0.0, 0.0


def _time_s(value: Any, otherwise_s: Any) -> Any:
    """Seconds since 1970 of a number or a date."""
    if value is None:
        return otherwise_s
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return float(value)


class Requests:
    """Requests that have ended, as somebody tells them."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._problems: queue.SimpleQueue[str] = queue.SimpleQueue()

    def tell(self, told: Any, now_s: float, where: str) -> None:
        """One has ended, at `now_s` (since 1970) if its document does not say."""
        try:
            self._ended.put(request_of(told, now_s))
        except UsageError as error:
            self._problems.put(f"{where} tells no tokens: {error}")

    def read(self) -> list[Request]:
        """Those that ended since it was asked last."""
        return [self._ended.get() for _ in range(self._ended.qsize())]

    def problems(self) -> list[str]:
        """What could not be read since it was asked last, in words."""
        return [self._problems.get() for _ in range(self._problems.qsize())]


class RequestLines(Requests):
    """Requests from a file that may grow, by its path, or from standard input (`-`)."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where, self._offset, self._count, self._rest = where, 0, 0, b""
        if where == "-":
            self._where = "standard input"
            threading.Thread(target=self._listen, daemon=True).start()
        elif not Path(where).is_file():
            raise UsageError(f"no file {where}: requests are read from it")

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            self._line(line)

    def read(self) -> list[Request]:
        """Those that ended since it was asked last."""
        if self._where != "standard input":
            self._read_on()
        return super().read()

    def _read_on(self) -> None:
        try:
            with Path(self._where).open("rb") as file:
                if file.seek(0, io.SEEK_END) < self._offset:  # it was begun anew
                    self._offset, self._rest = 0, b""
                file.seek(self._offset)
                new = file.read()
        except OSError as error:
            self._problems.put(f"cannot read {self._where}: {error.strerror}")
            return
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        self._count += 1
        told = None
        with suppress(ValueError):
            told = json.loads(line)
        if line.strip():
            self.tell(told, time.time(), f"line {self._count} of {self._where}")


# Whose energy it was ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shared:
    """A request, its part of the energy, and the share of its time that was metered."""

    request: Request
    energy: Split
    metered: float

    @property
    def energy_j(self) -> float:
        """All of it, J."""
        return math.fsum(asdict(self.energy).values())

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        parts = asdict(self.energy)
        del parts["idle_j"]
        told = {"energy_j": self.energy_j, **parts, "metered": self.metered}
        return {**asdict(self.request), **told}


@dataclass
class _Open:
    """A request whose energy is being added up: a list for each kind of token, J."""

    request: Request
    parts: tuple[list[float], ...] = field(default_factory=lambda: ([], [], []))
    metered_s: float = 0.0


class Sharing:
    """Shares the energy of intervals among the requests that ran in them.

    An interval is cut where requests begin, are read and end. Its energy goes to these
    pieces as what is expected of them, and that of a piece to its requests by what one
    more token costs; where nobody ran it is idle. What an interval takes beyond what is
    expected, and its neighbours do not, is an error of the meters and is levelled among
    them. Nothing is lost.

    Attributes:
        told: What was told of requests in all, for servers that do not count.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._intervals: list[tuple[float, float, float]] = []
        self._open: list[_Open] = []
        self._idle: list[float] = []
        self._settled_s = -math.inf
        self._carried_j = 0.0
        self.told = ServerCounts("", "", 0.0, 0.0, 0.0, 0.0)

    def tell(self, request: Request) -> None:
        """A request has ended."""
        self._open.append(_Open(request))
        grown = {
            name: getattr(self.told, name) + getattr(request, name)
            for name in ("prompt_tokens", "cached_tokens", "output_tokens")
        }
        requests = (self.told.requests or 0.0) + 1
        self.told = replace(self.told, requests=requests, **grown)

    def used(self, begin_s: float, end_s: float, energy_j: float) -> None:
        """An interval has ended, times in s since 1970."""
        self._intervals.append((begin_s, end_s, energy_j))

    @property
    def waiting(self) -> int:
        """Requests whose energy is not settled."""
        return len(self._open)

    @property
    def idle_j(self) -> float:
        """Energy of no request, J."""
        return math.fsum(self._idle)

    def settle(self, now_s: float, costs: TokenCosts) -> list[Shared]:
        """Share what nobody will be told of any more; gives requests that are whole."""
        while self._intervals and self._intervals[0][1] <= now_s - self._wait_s:
            begin_s, end_s, energy_j = self._intervals.pop(0)
            self._share(begin_s, end_s, energy_j, costs)
            self._settled_s = end_s
        if math.isinf(now_s):
            self._idle.append(self._carried_j)
            self._carried_j = 0.0
        whole_s = math.inf if math.isinf(now_s) else self._settled_s
        asked = self._open
        self._open = [each for each in asked if each.request.end_s > whole_s]
        return [_whole(each) for each in asked if each.request.end_s <= whole_s]

    def _share(
        self, begin_s: float, end_s: float, energy_j: float, costs: TokenCosts
    ) -> None:
        ran = [
            each for each in self._open
            if each.request.begin_s < end_s and each.request.end_s >= begin_s
        ]  # fmt: skip
        times = {begin_s, end_s}
        for each in ran:
            request = each.request
            times |= {request.begin_s, request.first_s or begin_s, request.end_s}
            inside = _share(request.begin_s, request.end_s, begin_s, end_s)
            each.metered_s += inside * max(SHORTEST_S, request.seconds)
        pieces = list(pairwise(sorted(t for t in times if begin_s <= t <= end_s)))
        weights = [
            [
                cost
                for each in ran
                for cost in costs.weights(each.request.between(*piece))
            ]
            for piece in pieces
        ]
        expected = [
            math.fsum(each) + costs.base_w * (piece[1] - piece[0])
            for each, piece in zip(weights, pieces, strict=True)
        ]
        if not math.fsum(expected) > 0:
            self._idle.append(energy_j)
            return
        energy_j = self._levelled(energy_j, math.fsum(expected), costs.lasting)
        for costing, piece_j in zip(weights, shared(energy_j, expected), strict=True):
            self._give(ran, costing, piece_j)

    def _levelled(self, energy_j: float, expected_j: float, lasting: float) -> float:
        """What an interval gives out; the rest of what was not expected is carried."""
        self._carried_j += energy_j - expected_j
        given_j = max(-expected_j, lasting * self._carried_j)
        self._carried_j -= given_j
        return expected_j + given_j

    def _give(self, ran: list[_Open], weights: list[float], energy_j: float) -> None:
        if not math.fsum(weights) > 0:
            self._idle.append(energy_j)
            return
        kinds = [kind for each in ran for kind in each.parts]
        for kind, part_j in zip(kinds, shared(energy_j, weights), strict=True):
            kind.append(part_j)


def _whole(each: _Open) -> Shared:
    prompt_j, cached_j, output_j = (math.fsum(kind) for kind in each.parts)
    metered = each.metered_s / max(SHORTEST_S, each.request.seconds)
    energy = Split(prompt_j, cached_j, output_j, 0.0)
    return Shared(each.request, energy, min(1.0, metered))
