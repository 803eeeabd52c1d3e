"""A real browser, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# The same engine without windows, tabs and their bars takes a third of the time.
BROWSERS = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"
)  # fmt: skip
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
WHY_NOT = "no Chromium on the path (sh scripts/ensure-browser)"
needs_browser = pytest.mark.skipif(BROWSER is None, reason=WHY_NOT)


def browse(text: str, folder: Path) -> tuple[str, str]:
    """What a browser has made of a page, and what it complained of."""
    assert BROWSER is not None
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    options += ["--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [BROWSER, *options, file.as_uri()], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(complaints)
