"""Who leaves takes nothing from those who stay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from irene.questions import AskEnergy
from irene.serve.answers.answering import Answering
from irene.serve.answers.memory import LINK, Memory, Ready
from irene.serve.answers.question import Inquiry
from irene.serve.answers.storage import Answers, Made
from irene.serve.computing.moments import Reply
from irene.serve.computing.pool import Pool
from irene.serve.computing.turns import Rounds, Turns, Waiting
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits
from irene.serve.store import open_store
from irene.spec import RunSpec


class SlowPool(Pool):
    """Answers when it is told to; nothing begins before."""

    def __init__(self) -> None:
        super().__init__(1, Limits())
        self.may = asyncio.Event()
        self.may_end = asyncio.Event()
        self.asked = 0

    async def ask(self, question: str, arguments: object, **_: object) -> Reply:  # type: ignore[override]
        self.asked += 1
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            await self.may_end.wait()
            raise
        return Reply(b"{}", 0.0)


def test_a_client_that_leaves_ends_nothing_for_others(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    inquiry = Inquiry(AskEnergy(run=RunSpec("gpt2"), on="pc1"))

    async def go() -> None:
        pool = SlowPool()
        answering = Answering(pool, Answers(store), Memory(1_000_000))
        loop = asyncio.get_running_loop()
        leaves, stays = loop.create_future(), loop.create_future()
        first = asyncio.create_task(answering.ask(inquiry, lambda: leaves))
        while not pool.asked:
            await asyncio.sleep(0)
        leaves.set_result(None)
        with pytest.raises(Problem) as left:
            await first
        assert left.value.status == 499
        # The first is being cancelled in this very moment, which takes its time.
        second = asyncio.create_task(answering.ask(inquiry, lambda: stays))
        async with asyncio.timeout(30):
            while pool.asked < 2:
                await asyncio.sleep(0)
        pool.may_end.set()
        pool.may.set()
        assert (await second).body == b"{}"
        assert pool.asked == 2

    asyncio.run(go())
    store.close()


class SlowAnswers(Answers):
    """Notes what is written together, and writes the first when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_store(f"sqlite:///{path / 'a.sqlite'}"))
        self.may = threading.Event()
        self.together: list[int] = []
        self.error: OSError | None = None

    def put_all(self, made: Sequence[Made]) -> None:
        self.together.append(len(made))
        self.may.wait()
        if self.error is not None:
            raise self.error
        super().put_all(made)


@pytest.mark.parametrize("error", [None, OSError("no room")], ids=["kept", "full"])
def test_what_is_made_while_others_are_written_is_written_together(
    tmp_path: Path, error: OSError | None
) -> None:
    answers = SlowAnswers(tmp_path)
    answers.error = error

    async def go() -> list[Ready]:
        answering = Answering(SlowPool(), answers, Memory(1_000_000))
        never, numbers = asyncio.get_running_loop().create_future, count()

        async def compute(begin: Callable[[], None]) -> Reply:
            begin()
            return Reply(b"%d" % next(numbers), 0.0)

        def ask(size: int) -> asyncio.Task[Ready]:
            run = RunSpec("gpt2", batch_size=size)
            asked = Inquiry(AskEnergy(run=run, on="pc1"))
            return asyncio.create_task(answering.ask(asked, never, compute))

        first = ask(1)
        while not answers.together:
            await asyncio.sleep(0.001)
        others = [ask(size) for size in range(2, 9)]
        while len(answering._made) < len(others):
            await asyncio.sleep(0.001)
        answers.may.set()
        return await asyncio.gather(first, *others)

    found = asyncio.run(go())
    assert answers.together == [1, 7]
    assert len({each.key for each in found}) == len({e.body for e in found}) == 8
    for each in found:
        stored = answers.get(each.key)
        assert (stored is None) == (error is not None)
        assert stored is None or stored.body == each.body
        # A permalink is promised only of what is in the store.
        assert (LINK in dict(each.headers)) == (error is None)
    answers.store.close()


def test_what_is_given_up_by_a_stop_is_told() -> None:
    async def go() -> int:
        pool = SlowPool()
        answering = Answering(pool, None, Memory(1_000_000))  # type: ignore[arg-type]
        answering.by_key = lambda key: asyncio.sleep(0)  # type: ignore[assignment,method-assign,return-value]
        inquiry = Inquiry(AskEnergy(run=RunSpec("gpt2"), on="pc1"))
        gone = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(answering.ask(inquiry, lambda: gone))
        while not pool.asked:
            await asyncio.sleep(0)
        pool.may_end.set()
        await answering.stop()
        with pytest.raises(Problem) as told:
            await waiting
        return told.value.status

    assert asyncio.run(go()) == 503


def test_requests_begin_one_by_one_and_clients_in_turn() -> None:
    begun: list[str] = []

    async def enter(door: Rounds, client: str) -> None:
        await door.enter(client)
        begun.append(client)

    async def go() -> None:
        door = Rounds(at_once=1, most=1)
        crowd = [asyncio.create_task(enter(door, "many")) for _ in range(50)]
        one = asyncio.create_task(enter(door, "one"))
        crowd[0].cancel()
        rounds = 0
        while not one.done():
            before = len(begun)
            await asyncio.sleep(0)
            rounds += 1
            assert len(begun) <= before + 1  # others have their turn in between
        assert "one" in begun[:3], begun
        await asyncio.gather(*crowd[1:])
        await asyncio.wait_for(enter(door, "later"), 10)

    asyncio.run(go())
    assert begun.count("many") == 49


def test_clients_take_turns() -> None:
    async def go() -> list[str]:
        turns: Turns[None] = Turns(10, 4)
        for client in ("a", "a", "a", "b", "c"):
            turns.join(Waiting(client, False))
        turns.join(Waiting("c", True))
        order = []
        while (found := turns.next(lambda waiting: not waiting.is_long)) is not None:
            order.append(found.client)
        assert len(turns) == 1  # what may not begin yet holds nobody up
        return order

    assert asyncio.run(go()) == ["a", "b", "c", "a", "a"]


def test_who_has_most_makes_room_and_nobody_takes_all() -> None:
    async def go() -> None:
        turns: Turns[None] = Turns(5, 3)
        greedy: list[Waiting[None]] = [Waiting("a", False) for _ in range(3)]
        for each in greedy:
            turns.join(each)
        with pytest.raises(Problem) as refused:
            turns.join(Waiting("a", False))
        assert refused.value.status == 429
        turns.join(Waiting("b", False))
        turns.join(Waiting("c", False))
        turns.join(Waiting("c2", False))
        lost = greedy[2].turn.exception()
        assert isinstance(lost, Problem)
        assert lost.status == 503
        assert len(turns) == 5
        turns.join(Waiting("d", False))  # in place of a's second one
        with pytest.raises(Problem) as full:
            turns.join(Waiting("e", False))  # all have one
        assert full.value.status == 503

    asyncio.run(go())
