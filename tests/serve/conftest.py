"""One real server for the tests of the API, and stores of both kinds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest

from irene.serve.store import Store, open_store

from .patience import not_for_ever
from .postgres import running_postgres, why_not
from .real_server import RealServer

# Workers of a test run do not start a server each.
GROUPS = {"http": "serve", "computing": "serve-computing", "answers": "serve-store"}


@pytest.hookimpl(tryfirst=True)  # before names have their group
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        for folder, group in GROUPS.items():
            if here / folder in item.path.parents:
                item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    with not_for_ever():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with not_for_ever():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    with not_for_ever():
        return (yield)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server that is ready."""
    folder = tmp_path_factory.mktemp("served")
    server = RealServer(folder / "data", folder / "log")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def api(served: RealServer) -> Iterator[httpx.Client]:
    """A client of that server."""
    with httpx.Client(base_url=f"{served.url}/api/v1", timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real Postgres."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running_postgres() as database:
        yield database.url


@pytest.fixture(params=["sqlite", "postgres"])
def either_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a store, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'irene.sqlite'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def either_store(either_url: str) -> Iterator[Store]:
    """An open store, of each kind in turn."""
    store = open_store(either_url)
    yield store
    store.close()
