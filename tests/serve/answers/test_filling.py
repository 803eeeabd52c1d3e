"""Leaderboards whose models fail, each in its own way."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from irene.analyse.leaderboard import entry_keys
from irene.errors import IreneError, LimitError
from irene.serve.answers import filling
from irene.serve.answers.filling import Filling, Wanted
from irene.serve.computing.moments import Reply
from irene.serve.computing.pool import Pool
from irene.serve.computing.questions import ask
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Limits
from irene.spec import RunSpec
from irene.trace import catalogue

from ..in_process import app_with

MODELS = ("bert-l2-h128", "bert-l2-h256", "bert-l4-h128")
RUN = {"batch_size": 2, "seq_len": 16}
LATE = Problem(504, "this took longer than 60 s and was ended")


class FailingPool(Pool):
    """Answers in this process; some models fail for the first times."""

    def __init__(self, failures: Mapping[str, tuple[IreneError, int]]) -> None:
        super().__init__(1, Limits())
        self.failures = failures
        self.asked: Counter[str] = Counter()

    async def ask(
        self,
        question: str,
        arguments: Mapping[str, Any],
        *,
        is_long: bool = False,
        client: str = "",
        on_begin: Callable[[], None] = lambda: None,
    ) -> Reply:
        (model,) = arguments["models"]
        self.asked[model] += 1
        error, times = self.failures.get(model, (LATE, 0))
        if self.asked[model] <= times:
            raise error
        return Reply(ask(question, arguments), 0.0)


def wanted() -> Wanted:
    known = catalogue.entries()
    return Wanted([known[name] for name in MODELS], RunSpec(**RUN), "pc1")


def fill(board: Filling) -> None:
    """Fill a board that somebody wants."""
    board.want(wanted(), "a")
    asyncio.run(board.fill(wanted()))


def test_what_fails_is_told_and_the_rest_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    short = LimitError("this needs more memory")
    pool = FailingPool({MODELS[0]: (LATE, 9), MODELS[1]: (short, 9)})
    board = Filling(tmp_path, pool)
    with caplog.at_level(logging.WARNING):
        fill(board)
    known = board.known(wanted())
    assert not known.missing
    assert known.failed == [MODELS[0], MODELS[1]]
    assert known.fields[MODELS[0]] == {"problem": str(LATE)}
    assert known.fields[MODELS[2]]["energy"]["joules"] > 0
    assert MODELS[0] in caplog.text
    # What was predicted is on disk; what failed is not, and has another chance there.
    after_restart = Filling(tmp_path, pool).known(wanted())
    assert list(after_restart.fields) == [MODELS[2]]
    assert after_restart.missing == [MODELS[0], MODELS[1]]


def test_every_model_is_asked_for_alone_and_once(tmp_path: Path) -> None:
    pool = FailingPool({MODELS[0]: (LATE, 9)})
    board = Filling(tmp_path, pool)

    async def two_boards() -> None:
        board.want(wanted(), "a")
        await asyncio.gather(board.fill(wanted()), board.fill(wanted()))

    asyncio.run(two_boards())
    assert pool.asked == dict.fromkeys(MODELS, 1)


def test_what_names_the_models_is_not_made_anew_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def noted(*given: Any) -> dict[str, str]:
        made.append(1)
        return entry_keys(*given)

    monkeypatch.setattr(filling, "entry_keys", noted)
    fill(Filling(tmp_path, FailingPool({})))
    assert len(made) == 3  # before, at the beginning and at the end


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    busy = Problem(503, "64 computations are waiting already")
    pool = FailingPool({MODELS[0]: (busy, 2), MODELS[1]: (busy, 9)})
    board = Filling(tmp_path, pool, busy_s=0.0)
    fill(board)
    known = board.known(wanted())
    assert known.failed == [MODELS[1]]
    assert pool.asked[MODELS[0]] == pool.asked[MODELS[1]] == 3


def test_what_failed_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "FAILED_S", 0.0)
    pool = FailingPool({MODELS[0]: (LATE, 2)})
    board = Filling(tmp_path, pool)
    fill(board)
    assert pool.asked[MODELS[0]] == 3
    assert not board.known(wanted()).failed


def test_a_leaderboard_ends_though_a_model_takes_too_long(tmp_path: Path) -> None:
    pool = FailingPool({MODELS[1]: (LATE, 9)})
    params = {"search": "bert-l2-h", "limit": "2", **RUN}
    with app_with(tmp_path) as app:
        app.state.filling = Filling(tmp_path / "energies", pool)

        async def poll() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8000/api/v1"
            ) as client:
                first = await client.get(
                    "/leaderboard", params={**params, "partial": "true"}
                )
                whole = await client.get("/leaderboard", params=params)
                again = await client.get(
                    "/leaderboard", params={**params, "partial": "true"}
                )
                return [first, whole, again]

        first, whole, again = asyncio.run(poll())
    assert first.json()["pending"] == 2
    for answer in (whole, again):
        document = answer.json()
        assert [each["model"] for each in document["models"]] == [MODELS[0]]
        assert document["left_out"] == [{"model": MODELS[1], "problem": str(LATE)}]
        assert document.get("pending", 0) == 0
        # The next one may be better: nobody keeps this one.
        assert "etag" not in answer.headers
        assert "content-location" not in answer.headers


def test_a_board_that_is_known_waits_for_no_other(tmp_path: Path) -> None:
    board = Filling(tmp_path, FailingPool({}))

    async def go() -> None:
        board.want(wanted(), "a")
        await board.fill(wanted())
        async with board._turn:  # others are being filled, for ever
            async with asyncio.timeout(30):
                await board.fill(wanted())

    asyncio.run(go())


def test_boards_that_nobody_asks_for_again_are_left(tmp_path: Path) -> None:
    now = [0.0]
    board = Filling(tmp_path, FailingPool({}), clock=lambda: now[0])

    async def go() -> None:
        board.want(wanted(), "a")
        now[0] = 2 * filling.WANTED_S
        with pytest.raises(Problem, match="nobody waits"):
            await board.fill(wanted())

    asyncio.run(go())
    assert board.known(wanted()).missing == list(MODELS)


def test_one_client_has_its_share_of_boards(tmp_path: Path) -> None:
    now = [0.0]
    board = Filling(tmp_path, FailingPool({}), clock=lambda: now[0])
    several = [
        Wanted(wanted().entries, RunSpec(batch_size=2, seq_len=length), "pc1")
        for length in range(1, 40)
    ]
    most = Limits().client_boards
    for each in several[:most]:
        board.want(each, "greedy")
    for each in several[most:]:
        with pytest.raises(Problem, match="other leaderboards"):
            board.want(each, "greedy")
    board.want(several[-1], "another")
    now[0] = 2 * filling.WANTED_S
    board.want(several[0], "greedy")  # those before are forgotten


def test_who_goes_from_board_to_board_leaves_the_first(tmp_path: Path) -> None:
    now = [0.0]
    board = Filling(tmp_path, FailingPool({}), clock=lambda: now[0])
    several = [
        Wanted(wanted().entries, RunSpec(batch_size=2, seq_len=length), "pc1")
        for length in range(1, 40)
    ]
    for each in several:
        now[0] += 1.0
        board.want(each, "restless", is_polled=True)

    async def go() -> None:
        for each in several[: -Limits().client_boards]:
            with pytest.raises(Problem, match="nobody waits"):
                await board.fill(each)
        await board.fill(several[-1])

    asyncio.run(go())
    assert not board.known(several[-1]).missing
    assert board.known(several[0]).missing == list(MODELS)


def test_a_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in place of a folder")
    board = Filling(tmp_path / "file", FailingPool({}))
    fill(board)
    assert not board.known(wanted()).missing
