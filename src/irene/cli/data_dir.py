"""`irene data-dir`: what a server keeps; show, prune, back up and restore it."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from irene.cli.options import duration_s, whole_number
from irene.cli.output import put
from irene.cli.serve import check_extra, usual_folder
from irene.errors import UsageError
from irene.human import human_duration

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
ACTIONS = {
    "show": "how much is kept, and since when it was not used",
    "prune": "delete what is old, and give its room back",
    "backup": "write everything to one file, while the server runs",
    "restore": "put a backup into an empty folder or database",
}
USAGE = f"{{{','.join(ACTIONS)}}} …"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="of backup and restore"
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER", help="as for `irene serve`"
    )
    parser.add_argument("--store", metavar="URL", help="as for `irene serve`")
    parser.add_argument(
        "--older-than", type=duration_s, metavar="AGE",
        help="prune: what nobody has used for this long, as 30d or 12h",
    )  # fmt: skip
    parser.add_argument(
        "--max-stored", type=whole_number, default=4_000_000_000, metavar="BYTES",
        help="prune: answers beyond this size (default 4e9)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    check_extra()
    from irene.serve.store import open_store
    from irene.serve.store.backup import back_up, restore

    folder = (options.data_dir or usual_folder()).absolute()
    url = options.store or f"sqlite:///{folder / 'irene.sqlite'}"
    if (options.file is None) == (options.action in ("backup", "restore")):
        words = "needs" if options.file is None else "takes no"
        raise UsageError(f"`irene data-dir {options.action}` {words} FILE")
    if options.action == "restore":
        _check_alone(folder)
        found = restore(options.file, url, folder)
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
            back_up(store, folder, options.file)
            size = options.file.stat().st_size
            told = {"file": str(options.file), "bytes": size}
            put(options, told, [f"{options.file}: {size:,} bytes"], SCHEMA)
    return 0


def _check_alone(folder: Path) -> None:
    from irene.work.lock import take

    if not (folder / "jobs.lock").exists():
        return
    lock = take(folder / "jobs.lock")
    if lock is None:
        raise UsageError(f"a server runs on {folder}: stop it first")
    lock.release()


def _show(options: argparse.Namespace, store: Store, folder: Path) -> None:
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


def _prune(options: argparse.Namespace, store: Store, folder: Path) -> None:
    from irene.serve.http.settings import Limits
    from irene.serve.store.retention import prune

    before = store.size_bytes()
    limits = Limits(stored_bytes=options.max_stored)
    gone = prune(store, folder, limits, options.older_than)
    store.shrink()
    after = store.size_bytes()
    lines = [f"deleted {', '.join(f'{n:,} {what}' for what, n in gone.items())}"]
    lines.append(f"the store has {after:,} bytes; it had {before:,}")
    told = {"deleted": gone, "before": before, "after": after}
    put(options, told, lines, SCHEMA)
