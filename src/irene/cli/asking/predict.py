"""`irene predict`: the energy of a model, node by node, without running it."""

from __future__ import annotations

import argparse

from irene.cli.asking.serving_options import add_serving_options
from irene.cli.options import (
    add_output_options,
    add_run_options,
    add_view_options,
    checked_run,
)

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  irene predict bert-base-uncased -b 8 -s 128 --on pc1
  irene predict gpt2 -b 16 -s 256 --depth 3 --sort energy
  irene predict roberta-base -b 8 -s 128 --top 10
  irene predict ./my-model/config.json --html energy.html
  irene predict bert-base-uncased -b 8 --json > energy.json
  irene predict llama-3.1-8b --on b200 --batch 64 --prompt 750 --output 500
  irene predict llama-3.3-70b --on h200 -b 32 --phase decode --context 4096 \\
      --quantization fp8 --tensor-parallel 2
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene predict MODEL [options]"
    parser.epilog = EXAMPLES
    add_run_options(parser)
    parser.add_argument(
        "--on", metavar="NAME", default="pc1",
        help="hardware to predict for, or the file of a predictor (default pc1); "
        "`irene hardware` lists what there is",
    )  # fmt: skip
    add_serving_options(parser, step_time=True)
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Predict, then print or write."""
    from irene.cli.progress import working
    from irene.cli.screens.tree_output import check_output, put_tree

    check_output(options)
    arguments = checked_run(options)
    with working(f"predicting {options.model}"):
        from irene.predict.api import predict

        tree = predict(options.model, on=options.on, **arguments)
    put_tree(tree, options)
    return 0
