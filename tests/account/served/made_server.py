"""A server with answers by path, and an engine of which all is known."""

import json
import random
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from irene.account.served.server_counts import ServerCounts
from irene.account.served.token_energy import Interval


@contextmanager
def answering(answers):
    """Answers texts, documents, or what a function gives, by path; else 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path)
            answer = answer() if callable(answer) else answer
            if answer is None:
                self.send_error(404)
                return
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_OPTIONS(self):
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Made:
    """A request that the engine works at, and the energy that was truly for it."""

    begin_s: float
    prompt: int
    cached: int
    left: int
    output: int = 0
    end_s: float = 0.0
    energy_j: float = 0.0

    def told(self) -> dict:
        """The line of a log."""
        return {
            "start": self.begin_s, "first_token": self.begin_s + MadeEngine.STEP_S,
            "end": self.end_s, "prompt_tokens": self.prompt + self.cached,
            "cached_tokens": self.cached, "output_tokens": self.output,
        }  # fmt: skip


class MadeEngine:
    """Reads prompts and continues answers in steps, at known costs.

    A step takes 20 ms and 250 W of its own, 0.8 J for a token of a prompt, 0.02 J for
    a cached one and 0.3 J for a token of an answer. What it takes of its own is for
    the requests of the step, as the rest is.
    """

    PROMPT_J, CACHED_J, OUTPUT_J = 0.8, 0.02, 0.3
    STEP_S, BASE_W = 0.02, 250.0

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._running: list[Made] = []
        self.ended: list[Made] = []
        self.time_s = self.energy_j = 0.0
        self.prompt = self.cached = self.output = self.requests = 0

    def step(self) -> None:
        """One step: perhaps a new request, and a token for each that runs."""
        new = None
        if len(self._running) < 16 and self._random.random() < 0.3:
            whole = self._random.randint(20, 400)
            cached = whole // 2 if self._random.random() < 0.3 else 0
            left = self._random.randint(1, 120)
            new = Made(self.time_s, whole - cached, cached, left)
            self._running.append(new)
            self.prompt += new.prompt
            self.cached += cached
        self.output += len(self._running)
        self.time_s += self.STEP_S
        own_j = {id(each): self.OUTPUT_J for each in self._running}
        if new:
            own_j[id(new)] += self.PROMPT_J * new.prompt + self.CACHED_J * new.cached
        base_j, sum_j = self.STEP_S * self.BASE_W, sum(own_j.values())
        self.energy_j += sum_j + base_j
        for each in self._running:
            each.energy_j += own_j[id(each)] * (1 + base_j / sum_j)
            each.output += 1
            each.left -= 1
            each.end_s = self.time_s
        self.ended += [each for each in self._running if not each.left]
        self._running = [each for each in self._running if each.left]
        self.requests = len(self.ended)

    def counts(self) -> ServerCounts:
        return ServerCounts(
            "made", "m", self.prompt, self.cached, self.output, self.requests,
            len(self._running), 0,
        )  # fmt: skip

    def intervals(self, number: int, steps: int, noise: float) -> list[Interval]:
        """Looks at it, with meters that err by this share."""
        found = []
        for _ in range(number):
            before, energy_j = self.counts(), self.energy_j
            for _ in range(steps):
                self.step()
            seen_j = (self.energy_j - energy_j) * self._random.gauss(1, noise)
            seconds = steps * self.STEP_S
            found.append(Interval.between(before, self.counts(), seconds, seen_j))
        return found

    def metrics(self) -> str:
        """As vLLM tells it."""
        label = '{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"}'
        values = {
            "prompt_tokens_total": self.prompt + self.cached,
            "prompt_tokens_cached_total": self.cached,
            "generation_tokens_total": self.output,
            "request_success_total": self.requests,
            "num_requests_running": len(self._running), "num_requests_waiting": 0,
        }  # fmt: skip
        return "".join(f"vllm:{k}{label} {float(v)}\n" for k, v in values.items())
