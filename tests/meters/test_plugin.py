"""A meter of another package: the one of the documentation, installed for real."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from irene.errors import UsageError
from irene.meters.finding import open_meters, plugins

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "use-a-wall-meter.md"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    page = HOW_TO.read_text().partition("## Your own meter")[2]
    (code,) = re.findall(r"```python\n(.*?)```", page.partition("\n## ")[0], re.S)
    (project,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    source = tmp_path / "source"
    (source / "watts_file").mkdir(parents=True)
    (source / "watts_file" / "__init__.py").write_text(code)
    (source / "pyproject.toml").write_text(project)
    place = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "--target", place, source]
    subprocess.run([*command, *options], check=True, capture_output=True)
    monkeypatch.syspath_prepend(place)
    importlib.invalidate_caches()


def test_the_meter_of_the_documentation_is_found_and_read(installed, tmp_path):
    assert "watts-file" in plugins()
    (tmp_path / "watts").write_text("42.5")
    (meter,) = open_meters([f"watts-file:{tmp_path / 'watts'}"])
    assert meter.read() == [42.5]
    with pytest.raises(UsageError, match="watts-file"):
        open_meters(["no-such-meter"])
