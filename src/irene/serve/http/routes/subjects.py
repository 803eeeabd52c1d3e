"""Subjects of a comparison or of a table: `gpt2@b16s256`, `upload:ID`, `answer:KEY`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irene.analyse.subjects import Subject, parse_subject
from irene.serve.answers.question import check_hardware
from irene.spec import RunSpec
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.sources import only_known

__all__ = ["read_subject"]


def read_subject(text: str, hardware: str, run: Mapping[str, Any]) -> Subject:
    """What somebody means, without a look at the files of this machine.

    Args:
        text: As it was written.
        hardware: Machine, unless the text names another.
        run: Arguments of `irene.trace`, unless the text names others.

    Raises:
        UsageError: What follows the `@` is no size, or an impossible one.
        Problem: The machine is unknown.
    """
    with only_known({}):
        subject = parse_subject(text, hardware, **run)
    check_hardware(subject.on)
    sizes = {k: v for k, v in subject.run.items() if k != "model_class"}
    DEFAULT_LIMITS.check_spec(RunSpec("any", **sizes))
    return subject
