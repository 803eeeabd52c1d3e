"""`irene crossvalidate`: how well a method predicts what it has not seen."""

from __future__ import annotations

import argparse
import sys
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.machines.learning_options import (
    DATA,
    METHODS,
    add_choice_options,
    add_config_option,
    add_engine_options,
    add_method_options,
    chosen_engine,
    chosen_options,
    read_measured,
)
from irene.cli.machines.machine_text import level_table
from irene.cli.options import whole_number
from irene.cli.output import put_json
from irene.cli.progress import progress_bar

if TYPE_CHECKING:
    from irene.predict import CrossValidation, Errors
    from irene.predict.learning.own_data import DataRead

__all__ = ["configure", "run"]

USAGE = "DATA [options]"
EXAMPLES = f"""\
{METHODS}
splits:
  model         each model from the others
  family        each family of like models from the others
  size          small and large runs, each length, each batch size in turn; also
                one by one: small, large, length, batch

examples:
  irene crossvalidate irene-pc1 --method irene
  irene crossvalidate irene-pc1 --method irene --features model --seeds 3
  irene crossvalidate irene-pc1 --option degree=2 --option tau=5
  irene crossvalidate irene-pc1 --method sum --split family --json
  irene crossvalidate irene-pc1 --method specs --plot errors.svg
  irene crossvalidate lab-store --method specs --split size --engine ray
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("data", metavar="DATA", help=DATA)
    add_method_options(parser, "irene")
    parser.add_argument(
        "--split", default="model", metavar="S",
        help="what is held out, see below (default model)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=whole_number, default=1, metavar="N",
        help="average the errors over N random starts (default 1)",
    )  # fmt: skip
    add_config_option(parser)
    add_choice_options(parser)
    add_engine_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--plot", metavar="FILE",
        help="also draw how the errors are distributed: .svg, .png or .html, with its "
        "numbers beside it",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Read, cross-validate and print."""
    from irene.errors import UsageError
    from irene.predict import make_method, make_split

    if options.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, got {options.seeds}")
    if options.plot:
        from irene.cli.output import check_writable
        from irene.show.picture.picture import check_drawable

        check_drawable(Path(options.plot))
        check_writable(options.plot)
    make_split(options.split)
    chosen = chosen_options(options)
    make_method(options.method, **chosen, seed=0)  # before reading
    measured = read_measured(options, "crossvalidate", needs_traces=False)
    result = _crossvalidate(options, chosen, measured)
    _say_unknown(measured)
    if options.plot:
        from irene.show.picture.answer_pictures import error_picture

        for path in error_picture(result).save(options.plot):
            print(f"wrote {path}", file=sys.stderr)
    if options.json:
        put_json(result.to_dict())
    else:
        _print_table(result)
    return 0


def _crossvalidate(
    options: argparse.Namespace, chosen: dict[str, Any], measured: DataRead
) -> CrossValidation:
    from irene.predict import crossvalidate, make_method, make_split
    from irene.predict.learning.training_runs import with_joiner

    table, joiner = measured.table, measured.joiner
    with (
        chosen_engine(options) as folds,
        progress_bar(f"{options.method}, by {options.split}") as advance,
    ):
        return crossvalidate(
            table,
            lambda seed: with_joiner(
                make_method(options.method, **chosen, seed=seed), joiner
            ),
            make_split(options.split),
            range(options.seeds),
            features=options.features,
            split_name=options.split,
            progress=advance,
            predict_rounds=folds.rounds(table, joiner, options.method, chosen)
            if folds
            else None,
        )


def _say_unknown(measured: DataRead) -> None:
    """Say which models were predicted from their file's features alone."""
    for model, why in measured.joiner.unknown.items():
        print(
            f"irene crossvalidate: {model}: features of its file alone ({why})",
            file=sys.stderr,
        )


def _print_table(result: CrossValidation) -> None:
    over = f", mean of {len(result.seeds)} seeds" if len(result.seeds) > 1 else ""
    print(
        f"{result.dataset}: {result.method}, features {result.features}, "
        f"split {result.split}{over}; errors in %"
    )
    errors = {row.held_out: row.errors.to_dict() for row in result.rows}
    errors |= {
        "average": result.average.to_dict(),
        "node-weighted": result.node_weighted.to_dict(),
    }
    covered = [_inside(row.coverage) for row in result.rows if row.coverage]
    if covered:
        covered.insert(0, "   in 90 % intervals set by the others")
    for line, inside in zip_longest(level_table("held out", errors), covered):
        print(line + (inside or ""))
    unpredicted = sum(row.unpredicted for row in result.rows)
    if unpredicted:
        print(f"{unpredicted} nodes have no prediction and do not count")


def _inside(coverage: Errors) -> str:
    values = coverage.to_dict().values()
    return "  " + " ".join(f"{'–' if v is None else f'{v:.0f} %':>6}" for v in values)
