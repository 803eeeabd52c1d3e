"""`irene data-dir`: what a server keeps; show, prune, back up and restore it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from irene.cli.options import duration_s
from irene.cli.output import put
from irene.cli.serve import USUAL_LIMITS, check_extra, folder_of
from irene.errors import UsageError
from irene.human import human_duration
from irene.parameters import Asked
from irene.serve.http.settings import Limits

if TYPE_CHECKING:
    from irene.serve.store import Store

EXAMPLES = """\
A server may run meanwhile, except while a backup is restored.

examples:
  irene data-dir show
  irene data-dir prune --older-than 30d
  irene data-dir backup irene-2026-11-17.backup
  irene data-dir restore irene-2026-11-17.backup --data-dir ./new
  irene data-dir backup all.backup --store postgresql://irene@db/irene
"""
SCHEMA = "irene.data-dir/1"
USAGE = "{show,prune,backup,restore} …"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        action: How much is kept, and since when it was not used; delete what is old;
            write everything to one file; put that into an empty folder or database.
        file: Of backup and restore.
        data_dir: As for `irene serve`.
        store: As for `irene serve`.
        older_than: Prune: what nobody has used for this long, as 30d or 12h.
        max_stored: Prune: answers beyond this size (default 4e9).
        json: One JSON document.
    """

    action: Annotated[Literal["show", "prune", "backup", "restore"], Asked(word=True)]
    file: Annotated[str | None, Asked(word=True, metavar="FILE")] = None
    data_dir: Annotated[str | None, Asked(metavar="FOLDER")] = None
    store: Annotated[str | None, Asked(metavar="URL")] = None
    older_than: Annotated[str | None, Asked(metavar="AGE")] = None
    max_stored: Annotated[int, Asked(metavar="BYTES")] = USUAL_LIMITS.stored_bytes
    json: bool = False


def run(options: Options) -> int:
    """Do what the action says."""
    check_extra()
    from irene.serve.store import open_store
    from irene.serve.store.backup import back_up, restore

    folder, file = folder_of(options.data_dir), Path(options.file or "")
    url = options.store or f"sqlite:///{folder / 'irene.sqlite'}"
    if (options.file is None) == (options.action in ("backup", "restore")):
        words = "needs" if options.file is None else "takes no"
        raise UsageError(f"`irene data-dir {options.action}` {words} FILE")
    if options.action == "restore":
        _check_alone(folder)
        found = restore(file, url, folder)
        lines = [f"{name:14} {n:>9,}" for name, n in found.items()]
        put(options, found, lines, SCHEMA)
        return 0
    if not options.store and not (folder / "irene.sqlite").exists():
        raise UsageError(f"{folder} is no folder of a server: give --data-dir")
    with closing(open_store(url)) as store:
        if options.action == "show":
            _show(options, store, folder)
        elif options.action == "prune":
            _prune(options, store, folder)
        else:
            back_up(store, folder, file)
            size = file.stat().st_size
            told = {"file": str(file), "bytes": size}
            put(options, told, [f"{file}: {size:,} bytes"], SCHEMA)
    return 0


def _check_alone(folder: Path) -> None:
    from irene.work.lock import take

    if not (folder / "jobs.lock").exists():
        return
    lock = take(folder / "jobs.lock")
    if lock is None:
        raise UsageError(f"a server runs on {folder}: stop it first")
    lock.release()


def _show(options: Options, store: Store, folder: Path) -> None:
    import time

    from irene.serve.store.migrations import CURRENT
    from irene.serve.store.retention import parts

    found = parts(store, folder)
    lines = [f"{folder}, store of {store.size_bytes():,} bytes, version {CURRENT}", ""]
    lines.append(f"{'':10} {'number':>9} {'bytes':>15}   longest unused")
    for each in found:
        age = "" if each.oldest is None else human_duration(time.time() - each.oldest)
        lines.append(f"{each.name:10} {each.count:>9,} {each.size_bytes:>15,}   {age}")
    document = {
        "folder": str(folder),
        "store_bytes": store.size_bytes(),
        "version": CURRENT,
        "parts": {
            each.name: {
                "count": each.count, "bytes": each.size_bytes, "oldest": each.oldest,
            }
            for each in found
        },
    }  # fmt: skip
    put(options, document, lines, SCHEMA)


def _prune(options: Options, store: Store, folder: Path) -> None:
    from irene.serve.store.retention import prune

    before = store.size_bytes()
    limits = Limits(stored_bytes=options.max_stored)
    age_s = duration_s(options.older_than) if options.older_than else None
    gone = prune(store, folder, limits, age_s)
    store.shrink()
    after = store.size_bytes()
    lines = [f"deleted {', '.join(f'{n:,} {what}' for what, n in gone.items())}"]
    lines.append(f"the store has {after:,} bytes; it had {before:,}")
    told = {"deleted": gone, "before": before, "after": after}
    put(options, told, lines, SCHEMA)
