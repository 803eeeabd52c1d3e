"""`irene trace`: a model as a tree with costs."""

from __future__ import annotations

import argparse

from irene.cli.asking.answering import add_question, answered, question_of
from irene.cli.options import MODEL, add_output_options, add_view_options

__all__ = ["configure", "run"]

USAGE = "MODEL [options]"
EXAMPLES = """\
examples:
  irene trace bert-base-uncased -b 8 -s 128
  irene trace gpt2 --level math --depth 6
  irene trace llama-3.1-8b --phase decode --context 4096 --dtype bf16 --attention sdpa
  irene trace ./my-model/config.json --json > tree.json
  irene trace t5-base -s 512 --decoder-seq 64 --sort flops
  irene trace gpt2 --top 10
  irene trace gpt2 --html gpt2.html
  irene trace llama-3.1-8b -b 64 --prompt 750 --output 500
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    from irene.questions import AskTree

    add_question(parser, AskTree, without=("level", "fold"), subject_help=MODEL)
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Trace, then print or write."""
    from irene.cli.output import check_output, put_tree
    from irene.questions import AskTree

    check_output(options)
    question = question_of(options, AskTree, level=None, fold=None)
    put_tree(answered(options, question, "tracing"), options)
    return 0
