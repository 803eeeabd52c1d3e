from __future__ import annotations

from pathlib import Path

import pytest

from irene.account.studies import Job, Store, grid
from tests.account.studies.steady import bert, quick


class StoppedError(Exception):
    """As Ctrl-C does."""


def stop_at(wanted: int) -> object:
    def progress(done: int, total: int, words: str) -> None:
        if done == wanted:
            raise StoppedError

    return progress


def test_a_stopped_study_goes_on(tmp_path: Path) -> None:
    subjects, conditions = [bert(1), bert(2)], quick(runs=2)
    first = Store(tmp_path, progress=stop_at(3))  # type: ignore[arg-type]
    with pytest.raises(StoppedError):
        grid(subjects, conditions, first, "prediction")
    assert first.performed == len(list(tmp_path.iterdir())) == 3
    kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
    second = Store(tmp_path)
    report = grid(subjects, conditions, second, "prediction")
    assert second.performed == 1
    assert all(file.read_bytes() == text for file, text in kept.items())
    third = Store(tmp_path)
    again = grid(subjects, conditions, third, "prediction")
    assert third.performed == 0
    assert again.profiles == report.profiles


def test_more_runs_keep_those_that_are_there(tmp_path: Path) -> None:
    subjects = [bert(1), bert(2)]
    grid(subjects, quick(runs=1), Store(tmp_path), "prediction")
    store = Store(tmp_path)
    grid(subjects, quick(runs=2), store, "prediction")
    assert store.performed == 2


def test_only_the_same_run_is_taken(tmp_path: Path) -> None:
    job = Job(bert(1), "prediction", quick())
    Store(tmp_path).runs([job])
    others = [
        Job(bert(2), "prediction", quick()),
        Job(bert(1), "finetuning", quick()),
        Job(bert(1), "prediction", quick(seq_len=8)),
        Job(bert(1), "prediction", quick(), number=2),
    ]
    store = Store(tmp_path)
    store.runs([job, *others])
    assert store.performed == len(others)
    fresh = Store(tmp_path, fresh=True)
    fresh.runs([job])
    assert fresh.performed == 1


def test_a_damaged_file_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(bert(1), "prediction", quick())
    Store(tmp_path).runs([job])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    store = Store(tmp_path)
    (run,) = store.runs([job])
    assert store.performed == 1
    assert "damaged" in caplog.text
    assert Store(tmp_path).runs([job]) == [run]
