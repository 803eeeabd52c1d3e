"""An app inside this process, without its computing processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from irene.serve.http.app import create_app
from irene.serve.http.settings import Limits, Settings


@contextmanager
def app_with(
    data_dir: Path, limits: Limits | None = None, **settings: Any
) -> Iterator[FastAPI]:
    app = create_app(Settings(data_dir, limits=limits or Limits(), **settings))
    try:
        yield app
    finally:
        app.state.store.close()


def send(app: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    """One request; the app never hears that it starts or stops."""

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000"
        ) as client:
            return await client.request(method, path, **options)

    return asyncio.run(go())
