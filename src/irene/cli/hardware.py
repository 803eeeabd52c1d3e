"""`irene hardware`: the machines we know."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  irene hardware
  irene hardware lab.json
  irene hardware --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene hardware [NAME …] [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help="known machines, or files of predictors (default: all known)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Look up and print."""
    machines = [_fields(name) for name in options.names or _known()]
    if options.json:
        document = {"schema": "irene.hardware/1", "hardware": machines}
        json.dump(document, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        _print_machines(machines)
    return 0


def _known() -> Sequence[str]:
    from irene.predict.known import known_machines

    return list(known_machines())


def _fields(name: str) -> dict[str, Any]:
    """A predictor without its rates."""
    from irene.predict.known import find_predictor

    fields = find_predictor(name).to_dict()
    return {
        key: value for key, value in fields.items() if key not in ("model", "schema")
    }


def _print_machines(machines: Sequence[Mapping[str, Any]]) -> None:
    from irene.cli import machine_text as text

    for i, fields in enumerate(machines):
        told = fields["provenance"]
        lines = [
            *text.machine_lines(fields),
            *text.domain_lines(fields["domain"]),
            *text.error_lines(told),
            *text.width_lines(fields["widths"], told.get("coverage")),
        ]
        print(*(["", *lines] if i else lines), sep="\n")
