"""A Postgres of Debian's packages in a temporary folder, where there is one."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    found = sorted(PACKAGES.glob("*/bin/initdb"))
    return found[-1].parent if found else None


def why_not() -> str:
    """Why no Postgres can be started, "" if one can."""
    if programs() is None:
        return "no Postgres: apt-get install postgresql"
    if os.getuid() == 0 and not (shutil.which("setpriv") and _has_user()):
        return "Postgres does not run as root, and there is no user postgres"
    return ""


def _has_user() -> bool:
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        return False
    return True


@contextmanager
def running_postgres() -> Iterator[str]:
    """The SQLAlchemy URL of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="irene-postgres-"))
    bin_folder = programs()
    assert bin_folder is not None
    user: list[str] = []
    if os.getuid() == 0:  # it refuses to run as root
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")

    def run(program: str, *words: str) -> None:
        done = subprocess.run(
            [*user, str(bin_folder / program), *words],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout.decode()

    data = str(folder / "data")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    run(
        "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=trust",
        "-E",
        "UTF8",
        "--no-sync",
    )
    # Its output goes to a file: a pipe would stay open as long as it runs.
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
