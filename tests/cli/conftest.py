"""What tests of commands share."""

from __future__ import annotations

import pytest

from irene.cli import main


@pytest.fixture
def run(capsys):
    """Run the program in this process; returns exit code, output and errors."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
