"""A server with answers by path, and an engine of which all is known."""

import json
import random
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from irene.account.served.engines import ServerCounts
from irene.account.served.intervals import Interval


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

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class MadeEngine:
    """Reads prompts and continues answers in steps, at known costs.

    A step takes 20 ms and 250 W of its own, 0.8 J for a token of a prompt, 0.02 J for
    a cached one and 0.3 J for a token of an answer.
    """

    PROMPT_J, CACHED_J, OUTPUT_J = 0.8, 0.02, 0.3
    STEP_S, BASE_W = 0.02, 250.0

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._left: list[int] = []
        self.time_s = self.energy_j = 0.0
        self.prompt = self.cached = self.output = self.requests = 0

    def step(self) -> None:
        """One step: perhaps a new request, and a token for each that runs."""
        prompt = cached = 0
        if len(self._left) < 16 and self._random.random() < 0.3:
            whole = self._random.randint(20, 400)
            cached = whole // 2 if self._random.random() < 0.3 else 0
            prompt = whole - cached
            self._left.append(self._random.randint(1, 120))
        output = len(self._left)
        self._left = [left - 1 for left in self._left]
        self.requests += self._left.count(0)
        self._left = [left for left in self._left if left]
        self.prompt += prompt
        self.cached += cached
        self.output += output
        own_j = self.PROMPT_J * prompt + self.CACHED_J * cached + self.OUTPUT_J * output
        self.energy_j += own_j + self.STEP_S * self.BASE_W
        self.time_s += self.STEP_S

    def counts(self) -> ServerCounts:
        return ServerCounts(
            "made", "m", self.prompt, self.cached, self.output, self.requests,
            len(self._left), 0,
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
            "num_requests_running": len(self._left), "num_requests_waiting": 0,
        }  # fmt: skip
        return "".join(f"vllm:{k}{label} {float(v)}\n" for k, v in values.items())
