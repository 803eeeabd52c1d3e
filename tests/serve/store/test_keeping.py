"""What is old or too much goes, and a backup has everything."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from irene.errors import UsageError
from irene.serve.answers.storage import ANSWERS, Answers
from irene.serve.http.settings import Limits
from irene.serve.store import Store, open_store, retention
from irene.serve.store.backup import back_up, restore
from irene.serve.store.job_records import JOBS, JobRecords
from irene.serve.store.retention import parts, prune
from irene.serve.uploads.storage import PASSING, UPLOADS, Upload, Uploads

DAY_S = 86_400.0
REQUEST = {"kind": "predict", "model": "gpt2", "run": {}}


def add_job(store: Store, ended: bool, model: str = "gpt2") -> tuple[str, str]:
    key, result = uuid.uuid4().hex, uuid.uuid4().hex
    records = JobRecords(store.engine)
    records.add(key, "s", {**REQUEST, "model": model}, 100)
    if ended:
        records.begin(key)
        Answers(store).put(result, os.urandom(1_000))
        records.succeed(key, result)
        records.announced(key)
    return key, result


def make_old(store: Store) -> None:
    """As if all of it had been used last ten days ago."""
    then = time.time() - 10 * DAY_S
    with store.engine.begin() as connection:
        connection.execute(update(ANSWERS).values(used=then))
        connection.execute(update(UPLOADS).values(used=then))
        connection.execute(update(JOBS).values(finished=then, created=then))


def test_what_nobody_used_goes_and_what_is_open_stays(
    either_store: Store, tmp_path: Path
) -> None:
    uploads = Uploads(either_store.engine)
    old, _ = uploads.put("config", "old", os.urandom(50).hex().encode(), "a")
    ended, result = add_job(either_store, ended=True)
    needed, _ = uploads.put("config", "needed", os.urandom(50).hex().encode(), "a")
    waiting, _ = add_job(either_store, ended=False, model=f"upload:{needed.id}")
    learning = uuid.uuid4().hex
    JobRecords(either_store.engine).add(learning, "s", {"kind": "learn"}, 100)
    energy = tmp_path / "energies" / "ab" / "ab.json"
    energy.parent.mkdir(parents=True)
    energy.write_text("{}")
    os.utime(energy, (1.0, 1.0))
    (tmp_path / "scratch" / ended).mkdir(parents=True)
    (tmp_path / "scratch" / waiting).mkdir()
    left, passing = tmp_path / f"{PASSING}left", tmp_path / f"{PASSING}now"
    for file in (left, passing):
        file.touch()
    os.utime(left, (1.0, 1.0))
    make_old(either_store)
    new, _ = uploads.put("config", "new", os.urandom(50).hex().encode(), "a")
    gone = prune(either_store, tmp_path, Limits(), 5 * DAY_S)
    assert gone["jobs"] >= 1
    assert gone["energies"] == 1
    records = JobRecords(either_store.engine)
    assert records.get(ended) is None
    assert records.get(waiting) is not None
    assert Answers(either_store).get(result) is None
    assert uploads.get(old.id) is None
    assert uploads.owners(old.id) == frozenset()
    assert uploads.get(new.id) is not None
    assert uploads.get(needed.id) is not None
    assert [each.name for each in (tmp_path / "scratch").iterdir()] == [waiting]
    assert (left.exists(), passing.exists(), energy.exists()) == (False, True, False)
    assert records.get(learning) is not None
    for each in (waiting, learning):
        records.forget(each)


def test_a_result_of_equal_jobs_stays_until_all_are_deleted(
    either_store: Store,
) -> None:
    records, answers = JobRecords(either_store.engine), Answers(either_store)
    result, jobs = uuid.uuid4().hex, [uuid.uuid4().hex for _ in range(2)]
    answers.put(result, os.urandom(1_000))
    for each in jobs:
        records.add(each, "s", REQUEST, 1_000)
        records.begin(each)
        records.succeed(each, result)
    assert records.forget(jobs[0]) == set()
    assert answers.get(result) is not None
    assert records.forget(jobs[1]) == {result}
    assert answers.get(result) is None
    assert records.unannounced("s") == []


def test_what_was_used_within_the_age_stays(
    either_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload of yesterday that was read two hours ago, and half a day is the age."""
    uploads = Uploads(either_store.engine)
    kept, _ = uploads.put("config", "x", os.urandom(50).hex().encode())
    now = time.time()
    with either_store.engine.begin() as connection:
        connection.execute(update(UPLOADS).values(used=now - 0.9 * DAY_S))
    with monkeypatch.context() as then:
        then.setattr("irene.serve.store.engine.time.time", lambda: now - 7_200.0)
        assert uploads.get(kept.id) is not None
    prune(either_store, tmp_path, Limits(), 0.5 * DAY_S)
    assert uploads.get(kept.id) is not None


def test_what_is_brought_while_another_deletes_it_is_there(
    either_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, body = Uploads(either_store.engine), os.urandom(50).hex().encode()
    kept, _ = uploads.put("config", "x", body, "a")
    look = uploads.get

    def lose(key: str) -> Upload | None:
        found = look(key)
        uploads.drop(key, "a")
        return found

    monkeypatch.setattr(uploads, "get", lose)
    uploads.put("config", "x", body, "b")
    monkeypatch.undo()
    assert uploads.get(kept.id) is not None
    assert uploads.owners(kept.id) == {"b"}


def test_the_folder_of_a_job_that_begins_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with closing(open_store(f"sqlite:///{tmp_path / 'irene.sqlite'}")) as store:
        look = Path.iterdir

        def begin_one(path: Path) -> Iterator[Path]:
            if path == scratch:
                key, _ = add_job(store, ended=False)
                (scratch / key).mkdir()
            return look(path)

        monkeypatch.setattr(Path, "iterdir", begin_one)
        prune(store, tmp_path, Limits())
        assert len(list(look(scratch))) == 1


def test_what_is_old_goes_while_others_write(
    either_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(either_store)
    old, new, meanwhile = (uuid.uuid4().hex for _ in range(3))
    answers.put(old, os.urandom(100))
    make_old(either_store)
    answers.put(new, os.urandom(100))
    cut = retention._some

    def write(keys: list[str]) -> Iterator[list[str]]:
        url = either_store.engine.url.render_as_string(hide_password=False)
        with closing(open_store(url)) as other:
            Answers(other).put(meanwhile, os.urandom(100))
        return cut(keys)

    monkeypatch.setattr(retention, "_some", write)
    prune(either_store, tmp_path, Limits(), 5 * DAY_S)
    assert answers.get(old) is None
    assert answers.get(new) is not None
    assert answers.get(meanwhile) is not None


def test_too_much_is_cut_and_the_file_shrinks(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'irene.sqlite'}")) as store:
        uploads, answers = Uploads(store.engine), Answers(store)
        for _ in range(20):
            uploads.put("config", "x", os.urandom(10_000))
            answers.put(uuid.uuid4().hex, os.urandom(10_000))
        before = store.size_bytes()
        prune(store, tmp_path, Limits(stored_bytes=100_000, uploads_bytes=50_000))
        sizes = {each.name: each.size_bytes for each in parts(store, tmp_path)}
        assert 50_000 < sizes["answers"] <= 100_000
        assert 20_000 < sizes["uploads"] <= 50_000
        assert store.size_bytes() < 0.5 * before
        assert (tmp_path / "irene.sqlite").stat().st_size < 0.5 * before


def test_an_upload_of_two_stays_until_both_have_deleted_it(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'irene.sqlite'}")) as store:
        uploads = Uploads(store.engine)
        kept, _ = uploads.put("config", "x", b"{}", "a")
        uploads.put("config", "x", b"{}", "b")
        uploads.drop(kept.id, "a")
        assert uploads.get(kept.id) is not None
        uploads.drop(kept.id, "b")
        assert uploads.get(kept.id) is None


def test_a_backup_under_load_has_all_that_was_there(
    either_store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "server-id").write_text("a" * 32)
    answers = Answers(either_store)
    before = [uuid.uuid4().hex for _ in range(30)]
    for key in before:
        answers.put(key, os.urandom(2_000))
    upload, _ = Uploads(either_store.engine).put(
        "config", "x", os.urandom(9).hex().encode()
    )
    key, result = add_job(either_store, ended=True)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            answers.put(uuid.uuid4().hex, os.urandom(2_000))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        back_up(either_store, folder, tmp_path / "backup")
    finally:
        done.set()
        writer.join(60)
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    url = f"sqlite:///{tmp_path / 'new' / 'irene.sqlite'}"
    restore(tmp_path / "backup", url, tmp_path / "new")
    with closing(open_store(url)) as store:
        found = Answers(store)
        for each in (*before, result):
            copy, original = found.get(each), answers.get(each)
            assert copy is not None
            assert original is not None
            assert copy.body == original.body
        assert Uploads(store.engine).get(upload.id) == upload
        record = JobRecords(store.engine).get(key)
        assert record == JobRecords(either_store.engine).get(key)
    assert (tmp_path / "new" / "server-id").read_text() == "a" * 32
    with pytest.raises(UsageError, match="in use"):  # nothing is written over
        restore(tmp_path / "backup", url, tmp_path / "new")
    with pytest.raises(UsageError, match="answers already"):
        restore(tmp_path / "backup", url, tmp_path / "other")


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(os.urandom(10_000))
    url = f"sqlite:///{tmp_path / 'new.sqlite'}"
    for path in (wrong, tmp_path / "none"):
        with pytest.raises(UsageError):
            restore(path, url, tmp_path / "new")
