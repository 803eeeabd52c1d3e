"""Migration: a store of an older version becomes one of today's when it is opened.

Columns that a newer version adds need no migration: they are unknown in older segments.
A step is for what changes the meaning of what is there. It may be ended at any point
and is then done again, so it must leave what it has done already as it is.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

from irene.dataset.store.layout import SCHEMA, Layout, sync_folder
from irene.dataset.store.locking import held
from irene.whole_file import whole_file

__all__ = ["STEPS", "migrate"]

log = logging.getLogger(__name__)

STEPS: dict[int, Callable[[Layout], None]] = {}
"""What makes version N + 1 of version N, by N. There is one version so far."""


def migrate(folder: Path) -> bool:
    """Bring a store to today's version.

    Args:
        folder: The store; nothing happens where there is none, or a newer one.

    Returns:
        Whether there was something to do.
    """
    layout = Layout(folder)
    today = int(SCHEMA.rpartition("/")[2])
    if not _needs_step(layout, today):
        return False
    with held(layout.lock):
        while (version := _version(layout)) is not None and version < today:
            if version not in STEPS:
                return False  # opening says so
            log.info("%s: from version %d to %d", folder, version, version + 1)
            STEPS[version](layout)
            _write_version(layout, version + 1)
    return True


def _needs_step(layout: Layout, today: int) -> bool:
    version = _version(layout)
    return version is not None and version < today


def _version(layout: Layout) -> int | None:
    try:
        about = json.loads(layout.about.read_bytes())
    except (OSError, ValueError):
        return None
    schema = str(about.get("schema")) if isinstance(about, dict) else ""
    match = re.fullmatch(r"irene\.store/(\d+)", schema)
    return int(match[1]) if match else None


def _write_version(layout: Layout, version: int) -> None:
    about = json.loads(layout.about.read_bytes())
    about["schema"] = f"irene.store/{version}"
    with whole_file(layout.about) as file:
        file.write(f"{json.dumps(about)}\n".encode())
    sync_folder(layout.folder)
