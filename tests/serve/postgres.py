"""A Postgres of Debian's packages in a temporary folder, where there is one."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Postgres:
    """A Postgres that can be killed, and started again."""

    folder: Path
    options: str

    @property
    def url(self) -> str:
        """Of SQLAlchemy."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def run(self, program: str, *words: str) -> None:
        """Have one of its programs do something with its data."""
        bin_folder = programs()
        assert bin_folder is not None
        user: list[str] = []
        if os.getuid() == 0:  # it refuses to run as root
            user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        done = subprocess.run(
            [*user, str(bin_folder / program), "-D", str(self.folder / "data"), *words],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout.decode()

    def start(self) -> None:
        """Its output goes to a file: a pipe would stay open as long as it runs."""
        self.run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", self.options,
                 "start")  # fmt: skip

    def kill(self) -> None:
        """As a power cut would: those that it started hold its memory, too."""
        pid = (self.folder / "data" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *children):
            with suppress(ProcessLookupError):
                os.kill(int(each), signal.SIGKILL)
        ends = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists() and time.monotonic() < ends:
            time.sleep(0.05)  # its number is taken until somebody has seen its end


@contextmanager
def running_postgres(fsync: bool = False) -> Iterator[Postgres]:
    """An empty database."""
    folder = Path(tempfile.mkdtemp(prefix="irene-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    database = Postgres(folder, options + ("" if fsync else " -c fsync=off"))
    words = ("-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync")
    database.run("initdb", *words)
    database.start()
    try:
        yield database
    finally:
        database.run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
