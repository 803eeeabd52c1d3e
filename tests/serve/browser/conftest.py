"""A real server, a real browser, and the pages as a person uses them."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real_browser import BROWSER, WHY_NOT
from tests.serve.real_server import RealServer

CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 240_000  # of a machine that does much else
JOB_MS = 240_000  # a job is a new process that imports torch
LONGEST_S = 900
"""No test takes longer: whatever waits without a bound of its own ends there."""
OF_COLOURS = ("color-contrast", "link-in-text-block")
TWO_FRAMES = """() => new Promise(
  (done) => requestAnimationFrame(() => requestAnimationFrame(done)))"""
_servers: list[RealServer] = []

# One worker keeps one server and one browser, instead of every worker its own.
_GROUP = pytest.mark.xdist_group("browser")


@pytest.hookimpl(tryfirst=True)  # before names have their group
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder on one worker."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(_GROUP)


@contextmanager
def bounded() -> Iterator[None]:
    """End this process, and its servers, if what is inside never ends."""

    def end() -> None:
        faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
        for server in _servers:
            server.process.terminate()
        os._exit(3)

    watch = threading.Timer(LONGEST_S, end)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


@pytest.fixture(autouse=True)
def never_for_ever() -> Iterator[None]:
    """A call of a browser may wait without a bound; a test does not."""
    with bounded():
        yield


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """Address of an `irene serve` with this data folder, ended as systemd would."""
    pytest.importorskip("fastapi")
    server = RealServer(folder / "data", folder / "server.log", options).start()
    _servers.append(server)
    try:
        yield server.url
    finally:
        _servers.remove(server)
        server.stop()


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running server whose data folder was empty when it started.

    One for all tests of a worker: starting takes longer than most of them. Whoever
    works on the pages names a server that runs already in IRENE_TEST_SERVER.
    """
    running = os.environ.get("IRENE_TEST_SERVER")
    if running:
        yield running
        return
    with served(tmp_path_factory.mktemp("serve")) as url:
        yield url


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium without a window.

    Ends with this folder: while Playwright runs, no other test of the worker could have
    an event loop of its own.
    """
    sync_api = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip(WHY_NOT)
    sync_api.expect.set_options(timeout=PATIENCE_MS)
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=BROWSER, headless=True, args=CHROMIUM_ARGS
        )
        yield running
        with bounded():
            running.close()


@pytest.fixture(scope="package")
def contexts(browser: Any, server_url: str) -> Iterator[Callable[..., Any]]:
    """Contexts by their options: tests that want the same share the browser's cache."""
    known: dict[str, Any] = {}

    def find(**options: Any) -> Any:
        settings = {"viewport": {"width": 1440, "height": 900}, **options}
        key = repr(sorted(settings.items()))
        if key not in known:
            known[key] = browser.new_context(base_url=server_url, **settings)
            known[key].set_default_timeout(PATIENCE_MS)
            known[key].new_page()  # keeps its window open from test to test
        return known[key]

    yield find
    with bounded():
        for context in known.values():
            context.close()


@pytest.fixture
def new_page(contexts: Callable[..., Any], server_url: str) -> Iterator[Any]:
    """Makes pages; options are those of a Playwright context.

    A script error or a request that leaves the machine fails the test.
    """
    pages: list[Any] = []
    wrong: list[str] = []

    def make(**options: Any) -> Any:
        page = contexts(**options).new_page()
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
        page.on("request", lambda request: _check_request(request.url))
        return page

    def _check_request(address: str) -> None:
        if not address.startswith((server_url, "data:", "blob:")):
            wrong.append(f"a request left the machine: {address}")

    yield make
    for page in pages:
        if page.url.startswith(server_url):
            page.evaluate("localStorage.clear()")  # the next begins anew
        page.close()
    assert wrong == []


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    """A page in a fresh context: desktop size, light."""
    return new_page(color_scheme="light")


@pytest.fixture
def axe() -> Callable[[Any], list[str]]:
    """Runs axe-core on a page made with `bypass_csp=True`; the violations in words.

    All rules in light; those about colours in dark, too.
    """
    package = pytest.importorskip("axe_core_python")
    script = (Path(package.__file__).parent / "axe.min.js").read_text()

    def violations(page: Any, scheme: str, options: dict[str, Any]) -> list[Any]:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(TWO_FRAMES)  # what is drawn in its colours is drawn anew
        run = "options => axe.run(options).then(r => r.violations)"
        found: list[Any] = page.evaluate(run, options)
        return found

    def check(page: Any) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.add_script_tag(content=script)
        found = violations(page, "dark", {"runOnly": list(OF_COLOURS)})
        found += violations(page, "light", {"resultTypes": ["violations"]})
        return [
            f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for each in found
            for node in each["nodes"]
        ]

    return check
