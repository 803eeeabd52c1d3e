from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from irene.serve.jobs import limited_process
from irene.serve.jobs.bounds import Bounds
from irene.serve.jobs.limited_process import (
    LimitedProcess,
    ProcessError,
    UnwantedError,
)

from .programs import BEGINNING, ENDLESS, QUICK, RESULT, program

ORDER = {"arguments": {"model": "m"}}
BOUNDS = Bounds(wall_s=60, cpu_s=60, memory_bytes=0)


def run(
    code: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    bounds: Bounds = BOUNDS,
    wanted: bool = True,
) -> tuple[bytes, list[tuple[int, int, str]]]:
    monkeypatch.setattr(limited_process, "PROGRAM", program(code))
    heard: list[tuple[int, int, str]] = []
    process = LimitedProcess(ORDER, bounds, folder)
    body = process.run(lambda *step: heard.append(step), lambda: wanted)
    return body, heard


def test_progress_and_result_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, heard = run(QUICK, tmp_path, monkeypatch)
    assert body == b'{"model": "m"}'
    assert heard == [(1, 2, "half")]


def test_a_large_result_comes_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"{BEGINNING}\nsay(result=5_000_000)\nout.write(b'x' * 5_000_000)"
    body, _ = run(code, tmp_path, monkeypatch)
    assert body == b"x" * 5_000_000


def test_a_result_past_its_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = Bounds(60, 60, 0, result_bytes=5)
    with pytest.raises(ProcessError, match="past the limit"):
        run(QUICK, tmp_path, monkeypatch, bounds)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise SystemExit(3)", "crash"),
        (f"{BEGINNING}\nimport signal; os.kill(0, signal.SIGKILL)", "memory"),
        (f"{BEGINNING}\nsay(problem=dict(error='memory', detail=''))", "memory"),
        (f"{BEGINNING}\nout.write(b'x' * 200_000)\nout.flush()", "crash"),
    ],
)
def test_a_process_that_ends_badly_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    with pytest.raises(ProcessError) as caught:
        run(code, tmp_path, monkeypatch)
    assert caught.value.error == error


def test_too_much_cpu_time_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        f"{BEGINNING}\nfrom irene.serve.jobs.bounds import set_bounds\n"
        "set_bounds(order['bounds'])\nwhile True: pass"
    )
    bounds = Bounds(wall_s=100, cpu_s=0, memory_bytes=0)
    with pytest.raises(ProcessError, match="CPU time") as caught:
        run(code, tmp_path, monkeypatch, bounds)
    assert caught.value.error == "timeout"


def test_no_file_grows_past_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        f"{BEGINNING}\nfrom irene.serve.jobs.bounds import set_bounds\n"
        "set_bounds(order['bounds'])\nimport signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try:\n    open('big', 'wb').write(bytes(1_000_000))\nexcept OSError: pass\n"
        f"{RESULT}"
    )
    run(code, tmp_path, monkeypatch, Bounds(60, 60, 0, file_bytes=10_000))
    assert (tmp_path / "big").stat().st_size <= 10_000


def test_what_the_process_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        f"{BEGINNING}\nimport subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open('child', 'w').write(str(child.pid))\n{ENDLESS.removeprefix(BEGINNING)}"
    )
    bounds = Bounds(wall_s=1, cpu_s=60, memory_bytes=0)
    with pytest.raises(ProcessError, match="not finished within 1 s"):
        run(code, tmp_path, monkeypatch, bounds)
    assert is_gone(int((tmp_path / "child").read_text()))


def is_gone(pid: int) -> bool:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().split()[2]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_job_nobody_wants_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnwantedError):
        run(ENDLESS, tmp_path, monkeypatch, wanted=False)


def test_secrets_of_the_server_stay_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRENE_TOKEN", "a secret of ours")
    code = (
        f"{BEGINNING}\nbody = json.dumps(dict(os.environ)).encode()\n"
        "say(result=len(body))\nout.write(body)"
    )
    body, _ = run(code, tmp_path, monkeypatch)
    assert b"a secret of ours" not in body
    assert b"HF_HUB_OFFLINE" in body


def test_the_real_program_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    # It waits for its order on a pipe; closing that is all a killed server does.
    process = subprocess.Popen(
        [sys.executable, *limited_process.PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(
        b'{"kind":"predict","bounds":{"cpu_s":60,"file_bytes":1000,"memory_bytes":0},'
        b'"arguments":{"model":"bert-l2-h128","run":{},"hardware":"pc1"}}\n'
    )
    process.stdin.flush()
    assert process.stdout.readline() == b'{"begun":true}\n'
    process.stdin.close()
    assert process.wait(30) == -9
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []
