"""Run the chain with the commands that a user would give."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts.chain.models import COLLECTED, NEW, write_configs
from scripts.chain.page import write_page

from irene.dataset.store import Store

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "explanation" / "the-whole-chain.md"
NEW_SIZES = ((1, 64), (4, 64))


def main() -> None:
    """Collect in several passes, train, cross-validate, validate, write the page."""
    options = _parser().parse_args()
    work = Path(options.work).resolve()
    if options.fresh:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    begin_s, began = time.monotonic(), time.time()
    write_configs(work / "configs")
    shutil.copy(HERE / "sweep.yaml", work)
    (work / "exam.yaml").write_text(_exam_sweep((HERE / "sweep.yaml").read_text()))
    for turn in range(1, options.passes + 1):
        for sweep in ("sweep", "exam"):
            _irene(work, "collect", f"{sweep}.yaml", "--store", f"{sweep}-{turn}")
    for sweep in ("sweep", "exam"):
        stores = [f"{sweep}-{turn}" for turn in range(1, options.passes + 1)]
        shutil.rmtree(work / sweep, ignore_errors=True)
        _irene(work, "data", "merge", *stores, "--out", sweep)
        shutil.copytree(work / "configs", work / sweep / "configs")
    _irene(work, "train", "sweep", "--out", "this-machine.json")
    _irene(work, "hardware", "add", "this-machine.json")
    left_out = _json(work, "crossvalidate", "sweep", "--method", "specs", "--json")
    exam = _json(
        work, "validate", "--on", "this-machine", "--store", "exam", "--compare-only",
        "--json",
    )  # fmt: skip
    shown = _json(work, "data", "show", "sweep", "--json")
    lasted_s = time.monotonic() - begin_s + _measured_before_s(work, began)
    predictor = json.loads((work / "this-machine.json").read_text())
    write_page(PAGE, predictor, left_out, exam, shown, lasted_s, options.passes)
    print(f"wrote {PAGE.relative_to(ROOT)} after {lasted_s / 60:.0f} min")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.chain")
    parser.add_argument("--work", default="build/chain", help="folder to work in")
    parser.add_argument("--passes", type=int, default=2, help="measure all this often")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured")
    return parser


def _exam_sweep(text: str) -> str:
    """The same sweep for architectures that are not learned from, at fewer sizes."""
    head, _, rest = text.partition("model:\n")
    protocol = rest[rest.index("protocol:") :]
    points = [
        f"  - {{model: configs/{name}.json, batch_size: {batch}, seq_len: {length}}}"
        for name in NEW
        for batch, length in NEW_SIZES
    ]
    assert not set(NEW) & set(COLLECTED)
    schema = next(line for line in head.splitlines() if line.startswith("schema"))
    return "\n".join([schema, "include:", *points, protocol])


def _measured_before_s(work: Path, began: float) -> float:
    """How long an earlier start of the chain measured, s, if this one goes on."""
    found = 0.0
    for folder in [*work.glob("sweep-*"), *work.glob("exam-*")]:
        times = sorted(e.added_ns / 1e9 for e in Store.open(folder).entries())
        if times and times[-1] < began:
            found += (times[-1] - times[0]) * len(times) / max(1, len(times) - 1)
    return found


def _irene(work: Path, *words: str) -> None:
    print("$ irene", *words, flush=True)
    subprocess.run([sys.executable, "-m", "irene", *words], cwd=work, check=True)


def _json(work: Path, *words: str) -> dict[str, object]:
    print("$ irene", *words, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "irene", *words],
        cwd=work, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    document: dict[str, object] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    main()
