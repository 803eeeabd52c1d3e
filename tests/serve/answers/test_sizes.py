"""A size nobody asked for has the answer that it has asked alone."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from irene.errors import SpecError
from irene.questions import AskEnergy
from irene.serve.answers.answering import Answering
from irene.serve.answers.memory import Asked, Memory, Ready, form_of
from irene.serve.answers.question import Inquiry
from irene.serve.answers.sizes import Sizes
from irene.serve.answers.storage import Answers
from irene.serve.computing.moments import Reply, Take, pass_on
from irene.serve.computing.pool import Pool
from irene.serve.computing.questions import _found, ask, ask_several
from irene.serve.computing.worker import answer_several, read_several
from irene.serve.http.settings import Limits
from irene.serve.store import open_store
from irene.trace.templates.trees import at_once_alone

SMALL = {"model": "bert-l2-h128", "on": "pc1", "batch_size": 4, "seq_len": 16}


class OwnPool(Pool):
    """Answers in this process, and notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(1, Limits())
        self.asked: list[Mapping[str, Any]] = []

    def ask_soon(
        self,
        question: str,
        arguments: Mapping[str, Any],
        client: str = "",
        take: Take = pass_on,
    ) -> asyncio.Future[Any]:
        self.asked.append(arguments)
        turn = asyncio.get_running_loop().create_future()
        try:
            take(Reply(ask(question, arguments), 0.0), turn)
        except SpecError as error:
            turn.set_exception(error)
        return turn


def request(query: str, accept: bytes = b"*/*") -> Asked:
    return "/api/v1/energy", query.encode(), accept


def asked_for(folder: Path, *queries: str) -> tuple[list[Ready | None], OwnPool]:
    """What is found for queries at once, after one request was answered."""
    store = open_store(f"sqlite:///{folder / 'a.sqlite'}")

    async def go() -> tuple[list[Ready | None], OwnPool]:
        pool = OwnPool()
        sizes = Sizes(Answering(pool, Answers(store), Memory(1_000_000)))
        known = "model=bert-l2-h128&on=pc1&batch_size=4&seq_len=16"
        sizes.remember(request(known), Inquiry(AskEnergy.asked(SMALL), {"pc1"}))  # type: ignore[arg-type]
        asked = [request(query) for query in queries]
        found = [sizes.answer(each, *form_of(each), "") for each in asked]
        return await asyncio.gather(*found), pool

    found = asyncio.run(go())
    store.close()
    return found


def test_other_sizes_have_the_key_and_the_answer_they_have_alone(
    tmp_path: Path,
) -> None:
    query = "model=bert-l2-h128&on=pc1&batch_size=7&seq_len=33"
    (ready, again), pool = asked_for(tmp_path, query, query)
    alone = {**SMALL, "batch_size": 7, "seq_len": 33}
    assert ready is not None
    assert ready is again
    assert len(pool.asked) == 1  # both at once
    assert ready.key == Inquiry(AskEnergy.asked(alone), frozenset({"pc1"})).key
    assert ready.body == ask("energy", alone)
    assert json.loads(ready.body)["spec"]["batch_size"] == 7


@pytest.mark.parametrize(
    "query",
    [
        "model=bert-l2-h128&on=pc1&batch_size=7&seq_len=",
        "model=bert-l2-h128&on=pc1&batch_size=7&seq_len",
        "model=bert-l2-h128&on=pc1&batch_size=0&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=-7&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=7.0&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=100000000&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=%37&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=7",
        "model=bert-l2-h256&on=pc1&batch_size=7&seq_len=8",
        "model=bert-l2-h128&on=pc1&batch_size=7&seq_len=8&context_len=8",
        "model=bert-l2-h128&on=pc1&xbatch_size=7&seq_len=8",
    ],
)
def test_what_is_of_another_form_is_read_with_care(tmp_path: Path, query: str) -> None:
    (found,), pool = asked_for(tmp_path, query)
    assert found is None
    assert not pool.asked


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="at most 512 positions"):
        asked_for(tmp_path, "model=bert-l2-h128&on=pc1&batch_size=7&seq_len=513")


def test_of_several_each_has_its_own_end() -> None:
    """One is answered, one refused, one would have to be traced."""
    long = {**SMALL, "seq_len": 513}
    config = {"model_type": "bert", "num_hidden_layers": 1}
    unknown = {"model": "upload:x", "configs": {"upload:x": config}}
    asked = [
        {"question": "energy", "arguments": each}
        for each in (SMALL, long, unknown, SMALL)
    ]
    told = list(read_several(answer_several({"arguments": {"asked": asked}})))
    assert [each[1] for each in told] == [ask("energy", SMALL), b"", b"", told[0][1]]
    assert told[1][0] is not None
    assert told[1][0]["error"] == "SpecError"
    assert told[2][0] is None


def test_moments_go_together() -> None:
    async def go() -> tuple[list[Any], int]:
        pool = Pool(1, Limits(seconds=600))
        messages = 0
        run = pool._run

        async def counted(process: Any, task: Any) -> Any:
            nonlocal messages
            messages += 1
            return await run(process, task)

        pool.start()
        await pool.ready()
        pool._run = counted  # type: ignore[method-assign]
        sizes = [{**SMALL, "seq_len": length} for length in (8, 513, *range(9, 21))]
        found = await asyncio.gather(
            *(
                pool.ask_soon("energy", each, f"{i % 3}")
                for i, each in enumerate(sizes)
            ),
            return_exceptions=True,
        )
        await pool.stop()
        return found, messages

    found, messages = asyncio.run(go())
    assert messages <= 3
    refused = found.pop(1)
    assert isinstance(refused, SpecError)
    lengths = [json.loads(each.body)["spec"]["seq_len"] for each in found]
    assert lengths == [8, *range(9, 21)]


def test_who_waits_is_told_that_the_server_stops() -> None:
    async def go() -> Any:
        pool = Pool(1, Limits(seconds=600))
        pool.start()
        waiting = pool.ask_soon("energy", SMALL)
        await asyncio.sleep(0)
        await pool.stop()
        return (await asyncio.gather(waiting, return_exceptions=True))[0]

    assert getattr(asyncio.run(go()), "status", None) == 503


@pytest.mark.parametrize("on", ["pc1", "h100"])
def test_sizes_found_together_are_to_the_last_digit_those_found_alone(
    on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all structures: a batch of 1, and sizes at which kernels become equal."""
    models = ("bert-l2-h128", "gpt2", "t5-small", "albert-base-v2", "mixtral-8x7b")
    chosen = random.Random(18)
    asked = [
        {
            "model": chosen.choice(models), "on": on,
            "batch_size": chosen.choice((1, 2, 8, chosen.randint(1, 64))),
            "seq_len": chosen.choice((64, 128, chosen.randint(2, 500))),
        }
        for _ in range(60)
    ]  # fmt: skip
    monkeypatch.setattr(_found, "_largest", 0)  # nothing is remembered
    with at_once_alone():
        together = ask_several([("energy", each) for each in asked])
        found = [each for each in together if isinstance(each, bytes)]
        assert len(found) > 40, together
        for values, body in zip(asked, together, strict=True):
            if isinstance(body, bytes):
                assert body == ask("energy", values), values
