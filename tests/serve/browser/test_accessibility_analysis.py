"""axe-core on the pages beside explore, in light, in dark and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from tests.serve.browser.test_accessibility import CHAT, low_targets
from tests.serve.browser.test_ledger import ledger as ledger
from tests.serve.browser.test_open import brought
from tests.serve.browser.test_open import config as config

SMALL = "model=bert-l2-h128&batch_size=2&seq_len=32"
TWO = "subject=bert-l2-h128&subject=bert-l4-h128"
PAGES = {
    "compare": f"/compare?{TWO}&batch_size=2&seq_len=32",
    "trade-off": "/trade-off?batch_size=2&seq_len=32&budget_j=1&at_least=84&names=1",
    "leaderboard": "/leaderboard?limit=10&batch_size=2&seq_len=32&pick=bert-l2-h128",
    "suggest": "/suggest?model=bert-base-uncased&batch_size=1&seq_len=33",
    "cost": f"/cost?{SMALL}",
    "compare-servings": f"/compare?{CHAT}",
    "leaderboard-servings": f"/leaderboard?search=llama-3.2&{CHAT}",
    "suggest-serving": f"/suggest?{CHAT}",
    "cost-serving": f"/cost?{CHAT}",
    "curves-serving": f"/what-if?{CHAT}",
    "fields": "/what-if?model=distilbert-base-uncased&set=activation%3Drelu,gelu",
    "serve-plan": "/serve-plan?try_tensor_parallel=1,2",
    "too-slow": "/serve-plan?try_tensor_parallel=1&max_latency=1ms&every=1",
    "what-if": "/what-if?model=bert-l2-h128&batch_size=1,4&seq_len=16,32,64",
    "curves": "/what-if?model=bert-l2-h128&batch_size=1,4&seq_len=16,32,64&view=curve",
    "open": "/open",
    "job": "/jobs/none",
}


@pytest.mark.parametrize("name", PAGES)
def test_no_violation(
    name: str,
    new_page: Callable[..., Any],
    axe: Callable[[Any], list[str]],
) -> None:
    page = new_page(bypass_csp=True)
    page.goto(PAGES[name])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".busy")).to_have_count(0)
    problems = int(name == "job")
    expect(page.get_by_role("button", name="Try again")).to_have_count(problems)
    assert axe(page) == []


@pytest.mark.parametrize("kind", ["config", "ledger"])
def test_no_violation_in_what_was_brought(
    kind: str,
    new_page: Callable[..., Any],
    axe: Callable[[Any], list[str]],
    config: Path,
    ledger: Path,
) -> None:
    page = new_page(bypass_csp=True)
    brought(page, config if kind == "config" else ledger)
    assert axe(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_no_violation_on_a_phone(
    name: str, new_page: Callable[..., Any], axe: Callable[[Any], list[str]]
) -> None:
    page = new_page(bypass_csp=True, viewport={"width": 390, "height": 844})
    page.goto(PAGES[name])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".busy")).to_have_count(0)
    assert axe(page) == [], "folded"
    assert low_targets(page) == []
    assert axe(page) == [], "unfolded"
