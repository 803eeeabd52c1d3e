"""A server's jobs alone, in a process that can be killed: run with `python -m`.

`DATA_DIR STORE_URL JOBS`: accepts so many jobs, says so, and runs them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from irene.serve.http.settings import Settings
from irene.serve.jobs import execution
from irene.serve.jobs.runner import JobRunner
from irene.serve.store import open_store

from .programs import call

REQUEST: dict[str, Any] = {
    "kind": "predict",
    "model": "bert-l2-h128",
    "run": {},
    "hardware": "pc1",
    "notify": {},
}

if __name__ == "__main__":
    execution.WORK["predict"] = call("gated")
    settings = Settings(data_dir=Path(sys.argv[1]), store_url=sys.argv[2] or None)
    runner = JobRunner(settings, open_store(settings.database_url))
    runner.start()
    accepted = [runner.submit(REQUEST).id for _ in range(int(sys.argv[3]))]
    sys.stdout.write(" ".join(accepted) + "\n")
    sys.stdout.flush()
    time.sleep(600)
