"""`irene predict`: the energy of a model, node by node, without running it."""

from __future__ import annotations

import argparse

from irene.cli.asking.answering import add_question, answered, question_of
from irene.cli.options import MODEL, add_output_options, add_view_options

__all__ = ["configure", "run"]

USAGE = "MODEL [options]"
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
    from irene.questions import AskEnergy

    add_question(parser, AskEnergy, without=("level", "fold"), subject_help=MODEL)
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Predict, then print or write."""
    from irene.cli.output import check_output, put_tree
    from irene.questions import AskEnergy

    check_output(options)
    question = question_of(options, AskEnergy, level=None, fold=None)
    put_tree(answered(options, question), options)
    return 0
