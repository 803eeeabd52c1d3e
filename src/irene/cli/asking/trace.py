"""`irene trace`: a model as a tree with costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from irene.cli.asking.serving_options import add_serving_options, serving_arguments
from irene.cli.options import (
    add_output_options,
    add_run_options,
    add_view_options,
    checked_run,
)

if TYPE_CHECKING:
    from irene.tree import ModelTree

__all__ = ["configure", "run"]

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
    parser.usage = "irene trace MODEL [options]"
    parser.epilog = EXAMPLES
    add_run_options(parser)
    add_serving_options(parser)
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Trace, then print or write."""
    from irene.cli.progress import working
    from irene.cli.screens.tree_output import check_output, put_tree

    check_output(options)
    arguments = checked_run(options)
    with working(f"tracing {options.model}"):
        tree = _serving(options, arguments) or _traced(options, arguments)
    put_tree(tree, options)
    return 0


def _serving(
    options: argparse.Namespace, arguments: dict[str, Any]
) -> ModelTree | None:
    """What a serving engine would run, where a serving is asked for."""
    if arguments["phase"] != "generate" and not serving_arguments(options):
        return None
    from irene.trace.serving import serving_tree

    of_traces = ("decoder_len", "device", "model_class", "attention")
    run = {name: value for name, value in arguments.items() if name not in of_traces}
    return serving_tree(options.model, **run).unfold()


def _traced(options: argparse.Namespace, arguments: dict[str, Any]) -> ModelTree:
    from irene.trace.tracer import trace

    return trace(options.model, **arguments)
