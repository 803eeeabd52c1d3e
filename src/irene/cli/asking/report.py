"""`irene report`: everything about a model on one page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from irene.cli.asking.analysis_options import checked_subject, number
from irene.cli.asking.serving_options import add_serving_options
from irene.cli.options import add_run_options, run_arguments
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.analyse.subjects import Subject
    from irene.analyse.variant import Variant
    from irene.tree import ModelTree

__all__ = ["configure", "run"]

EXAMPLES = """\
The page is one file that loads nothing: it can be sent by mail, opened without network
and printed. MODEL may also be a saved tree, measured or traced: what needs predictions
of other sizes and models is then left out, unless --on names a machine.

examples:
  irene report bert-base-uncased -b 8 -s 128 --on pc1 --html bert.html
  irene report gpt2 -b 16 --region DE --price 0.1319 --pue 1.2 --html gpt2.html
  irene report measured.json --html measured.html
  irene report llama-3.1-8b --without trade-off --without sizes --html llama.html
"""
PARTS = ("bottlenecks", "sizes", "trade-off", "suggestions")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene report MODEL|TREE.json --html FILE [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--html", metavar="FILE", required=True, help="the page to write"
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="heading of the page (default: the model)"
    )
    parser.add_argument(
        "--without", choices=PARTS, action="append", default=[],
        help="a part to leave out, may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--on", metavar="NAME",
        help="hardware to predict for, or the file of a predictor (default pc1; for a "
        "saved tree none)",
    )  # fmt: skip
    _add_cost_options(parser)
    add_run_options(parser)
    add_serving_options(parser)


def _add_cost_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the cost")
    group.add_argument(
        "--price", type=number, metavar="MONEY", help="price of a kWh, in any currency"
    )
    group.add_argument(
        "--region", default="WORLD", metavar="CODE",
        help="whose electricity, for CO₂e (default WORLD)",
    )  # fmt: skip
    group.add_argument(
        "--pue", type=number, default=1.0, metavar="X",
        help="energy of the building by that of its machines (default 1)",
    )  # fmt: skip
    group.add_argument(
        "--per-day", type=number, metavar="N", help="queries per day, for a year's cost"
    )


def run(options: argparse.Namespace) -> int:
    """Ask everything and write the page."""
    from irene.cli.progress import progress_bar
    from irene.cli.screens.tree_output import check_writable

    check_writable(options.html)
    cost = _checked_cost(options)
    subject = checked_subject(
        options.model, options.on or "pc1", run_arguments(options)
    )
    with progress_bar("asking") as progress:
        if progress:
            progress(0, 1, "the tree")
        tree, base = _asked(subject, options.on)
        from irene.show.report import make_report, report_html

        report = make_report(
            tree, base, without=options.without, cost=cost, progress=progress
        )
    page = report_html(report, options.title)
    try:
        Path(options.html).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {options.html}: {error.strerror}") from error
    print(f"wrote {options.html}", file=sys.stderr)
    for part, reason in report.left_out.items():
        print(f"not in it: {part}: {reason}", file=sys.stderr)
    return 0


def _checked_cost(options: argparse.Namespace) -> dict[str, object]:
    """Arguments of `cost_of`; impossible ones are told before the work is done."""
    from irene.analyse.costs import check_cost

    check_cost(
        per_day=options.per_day,
        price_per_kwh=options.price,
        region=options.region,
        pue=options.pue,
    )
    return {
        "per_day": options.per_day,
        "price_per_kwh": options.price,
        "region": options.region,
        "pue": options.pue,
    }


def _asked(subject: Subject, on: str | None) -> tuple[ModelTree, Variant | None]:
    """The tree, and the model that other sizes are predicted of."""
    from irene.analyse.variant import Variant, predict_variant, variant_of_tree
    from irene.tree import load

    if not subject.is_tree:
        base = Variant(subject.model, dict(subject.run), on=subject.on)
        return predict_variant(base), base
    tree = load(subject.model)
    return tree, variant_of_tree(tree, on) if on else None
