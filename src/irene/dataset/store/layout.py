"""Files of a store: their places, the schema, and how it is made and opened.

STORE/store.json      schema and when it was made
STORE/manifest.jsonl  what is in the store
STORE/segments/       Parquet files of trees, never changed once they are there
STORE/writing/        files that are being written
STORE/quarantine/     damaged files, each with the reason in NAME.reason.txt
STORE/lock            held while the manifest changes
STORE/lock-packing    held while segments are packed
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from irene import __version__
from irene.dataset.store.locking import held
from irene.errors import FormatError, UsageError
from irene.whole_file import whole_file

__all__ = ["SCHEMA", "Layout", "create_store", "is_store", "opened", "sync_folder"]

SCHEMA = "irene.store/1"


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of the files of a store.

    Attributes:
        folder: The store.
    """

    folder: Path

    @property
    def about(self) -> Path:
        """Schema, and when the store was made."""
        return self.folder / "store.json"

    @property
    def manifest(self) -> Path:
        """What is in the store."""
        return self.folder / "manifest.jsonl"

    @property
    def segments(self) -> Path:
        """Parquet files of trees."""
        return self.folder / "segments"

    @property
    def writing(self) -> Path:
        """Files that are being written."""
        return self.folder / "writing"

    @property
    def quarantine(self) -> Path:
        """Damaged files."""
        return self.folder / "quarantine"

    @property
    def lock(self) -> Path:
        """Held while the manifest changes."""
        return self.folder / "lock"

    @property
    def packing(self) -> Path:
        """Held by the one who packs segments."""
        return self.folder / "lock-packing"

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders inside."""
        return self.segments, self.writing, self.quarantine


def is_store(path: Path | str) -> bool:
    """Whether a folder is a store, of whichever version."""
    return (Path(path) / "store.json").is_file()


def opened(path: Path) -> Layout:
    """The files of a store that is there.

    Raises:
        UsageError: There is none, and what to do.
        FormatError: It is damaged, or of a newer version.
    """
    layout = Layout(path)
    try:
        about = json.loads(layout.about.read_bytes())
    except FileNotFoundError:
        raise UsageError(_no_store(path)) from None
    except OSError as error:
        raise UsageError(f"cannot read {layout.about}: {error.strerror}") from error
    except ValueError as error:
        raise FormatError(
            f"{layout.about}: damaged: {error}; write "
            f'{{"schema": "{SCHEMA}"}} into it, then `irene data check {path}`'
        ) from error
    schema = about.get("schema") if isinstance(about, dict) else None
    if schema != SCHEMA:
        raise FormatError(_other_schema(path, schema))
    return layout


def _no_store(path: Path) -> str:
    if not path.exists():
        return (
            f"there is no store {path}; `irene collect SWEEP --store {path}` makes one"
        )
    if path.is_dir() and any(path.glob("*.parquet")):
        return (
            f"{path} is a folder of files and no store: `irene data merge {path}/"
            "*.parquet --out STORE` makes one of those that are ours"
        )
    return f"{path} is not a store: there is no store.json in it"


def _other_schema(path: Path, schema: object) -> str:
    newer = re.fullmatch(r"irene\.store/\d+", str(schema))
    what = "a newer store needs a newer irene" if newer else "it is not a store of ours"
    return f"{path}: schema is {schema!r}, this version reads {SCHEMA!r}; {what}"


def create_store(path: Path) -> Layout:
    """Make an empty store, or finish making one; what is there stays.

    Raises:
        UsageError: Other files are in the way, or it cannot be written.
    """
    layout = Layout(path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file: a store is a folder; choose another name")
    if not is_store(path) and path.is_dir() and any(_foreign(layout)):
        raise UsageError(f"{_no_store(path)}; choose a folder that is empty or new")
    try:
        for folder in layout.folders:
            folder.mkdir(parents=True, exist_ok=True)
        with held(layout.lock):
            if not layout.manifest.exists():
                layout.manifest.touch()
            if not is_store(path):
                _write_about(layout)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return layout


def _foreign(layout: Layout) -> list[Path]:
    ours = {layout.about, layout.manifest, layout.lock, layout.packing}
    ours |= {*layout.folders}
    return [
        file
        for file in layout.folder.iterdir()
        if file not in ours and not file.name.startswith(".store.json.")
    ]


def _write_about(layout: Layout) -> None:
    """Last of all: a folder with this file is a whole store."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"schema": SCHEMA, "irene": __version__, "made": made}
    sync_folder(layout.folder)
    with whole_file(layout.about) as file:
        file.write(f"{json.dumps(about)}\n".encode())
    sync_folder(layout.folder)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
