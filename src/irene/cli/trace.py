"""`irene trace`: a model as a tree with costs."""

from __future__ import annotations

import argparse

from irene.cli.options import (
    add_output_options,
    add_run_options,
    add_view_options,
    run_arguments,
)

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  irene trace bert-base-uncased -b 8 -s 128
  irene trace gpt2 --level math --depth 6
  irene trace llama-3.1-8b --phase decode --context 4096 --dtype bf16 --attention sdpa
  irene trace ./my-model/config.json --json > tree.json
  irene trace t5-base -s 512 --decoder-seq 64 --sort flops
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene trace MODEL [options]"
    parser.epilog = EXAMPLES
    add_run_options(parser)
    add_view_options(parser)
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    """Trace, then print or write."""
    from irene.cli.progress import working
    from irene.cli.tree_output import check_output, put_tree
    from irene.spec import RunSpec
    from irene.trace.sources import locate

    arguments = run_arguments(options)
    check_output(options)
    # A wrong size or name is told before torch is loaded, which takes seconds.
    locate(options.model)
    fields = ("batch_size", "seq_len", "decoder_len", "context_len", "phase")
    RunSpec(options.model, **{name: arguments[name] for name in fields})
    with working(f"tracing {options.model}"):
        from irene.trace.tracer import trace

        tree = trace(options.model, **arguments)
    put_tree(tree, options)
    return 0
