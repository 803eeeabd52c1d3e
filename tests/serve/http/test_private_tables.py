"""A client's own table of accuracies is answered, and kept nowhere."""

from __future__ import annotations

import httpx

from tests.serve.real_server import RealServer

TABLE = "model,accuracy,energy_j\nour-secret-model,93.25,0.5\nour-other-model,91,0.25\n"


def test_nothing_of_it_stays(api: httpx.Client, served: RealServer) -> None:
    answer = api.post("/trade-off", content=TABLE, headers={"content-type": "text/csv"})
    assert [each["model"] for each in answer.json()["candidates"]] == [
        "our-other-model",
        "our-secret-model",
    ]
    assert "content-location" not in answer.headers
    key = answer.headers["etag"].strip('"')
    assert api.get(f"/answers/{key}").status_code == 404
    files = [path for path in served.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"our-secret-model" in path.read_bytes()]
