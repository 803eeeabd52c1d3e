"""`irene crossvalidate`: how well a method predicts what it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.machines.learning_options import (
    METHODS,
    MethodOptions,
    chosen_engine,
    chosen_options,
    read_measured,
)
from irene.cli.machines.machine_text import level_table
from irene.cli.output import check_files, put_json, say, say_written
from irene.cli.progress import progress_bar
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.predict import CrossValidation, Errors
    from irene.predict.learning.own_data import DataRead

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


@dataclass(frozen=True, kw_only=True)
class Options(MethodOptions):
    """What the command is asked with.

    Attributes:
        split: What is held out, see below.
        seeds: Average the errors over so many random starts.
        plot: Also draw how the errors are distributed: .svg, .png or .html, with its
            numbers beside it.
    """

    method: Annotated[str, Asked(metavar="M")] = "irene"
    split: Annotated[str, Asked(metavar="S")] = "model"
    seeds: Annotated[int, Asked(least=1, metavar="N")] = 1
    plot: Annotated[str | None, Asked(metavar="FILE")] = None


def run(options: Options) -> int:
    """Read, cross-validate and print."""
    from irene.predict import make_method, make_split

    check_files(plot=options.plot)
    make_split(options.split)
    how = chosen_options(options)
    make_method(options.method, **how, seed=0)  # before reading
    measured = read_measured(options, "crossvalidate", needs_traces=False)
    result = _crossvalidate(options, how, measured)
    for model, why in measured.joiner.unknown.items():
        say(f"irene crossvalidate: {model}: features of its file alone ({why})")
    if options.plot:
        from irene.show.picture.answer_pictures import error_picture

        for path in error_picture(result).save(options.plot):
            say_written(path)
    if options.json:
        put_json(result.to_dict())
    else:
        _print_table(result)
    return 0


def _crossvalidate(
    options: Options, how: dict[str, Any], measured: DataRead
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
                make_method(options.method, **how, seed=seed), joiner
            ),
            make_split(options.split),
            range(options.seeds),
            features=options.features,
            split_name=options.split,
            progress=advance,
            predict_rounds=folds.rounds(table, joiner, options.method, how)
            if folds
            else None,
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
