"""Commands that ask a question of the table and show its answer.

What is asked comes from the question, what is shown from `irene.show.answer_screens`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from irene.cli.asking.answering import OF_TREE, Asking, plain_picture
from irene.cli.options import MODEL
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.analyse.bottlenecks import Bottlenecks
    from irene.show.picture import Picture

BY = ("module", "class", "role", "primitive", "layer", "level")


# What questions do not know: which part of an answer is shown -----------------


def _add_parts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the view")
    group.add_argument(
        "--by", choices=BY, action="append",
        help="how to add up, may be given several times (default: module, role and "
        "primitive)",
    )  # fmt: skip
    group.add_argument(
        "--top", type=float, default=90.0, metavar="PERCENT",
        help="show the largest that together have this share (default 90)",
    )  # fmt: skip
    group.add_argument("--all", action="store_true", help="show all, however small")


def _checked_top(options: argparse.Namespace) -> dict[str, Any]:
    if not 0 < options.top <= 100:
        raise UsageError(f"--top is a share from 0 to 100 %, got {options.top:g}")
    return {}


def _draw_parts(found: Bottlenecks, options: argparse.Namespace) -> Picture:
    from irene.show.answer_screens import shown_parts, shown_views
    from irene.show.picture.answer_pictures import bottleneck_bars

    rows = shown_parts(found, shown_views(options)[0], options)
    return bottleneck_bars(found, rows)


def _add_sides(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the table")
    group.add_argument(
        "--by", choices=("role", "path"),
        help="how parts are aligned (default: by path if the names agree, and by role)",
    )  # fmt: skip
    group.add_argument(
        "--all", action="store_true", help="show parts that do not differ, too"
    )


def _checked_plot(options: argparse.Namespace) -> dict[str, Any]:
    if options.sensitivity and options.plot:
        raise UsageError("--sensitivity goes without --plot")
    return {}


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accuracy", metavar="FILE.csv",
        help="accuracies of models (default: published ones on SST-2)",
    )  # fmt: skip


def _accuracies(options: argparse.Namespace) -> dict[str, Any]:
    from irene.analyse.pareto import accuracies_text

    text = accuracies_text(options.accuracy) if options.accuracy else None
    return {"accuracies": text}


class _ListRegions(argparse.Action):
    """Print all regions and leave; a model is not needed for that."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """List and exit."""
        from irene.analyse.costs import regions

        for region in regions().values():
            print(
                f"{region.code:5}  {region.gco2e_per_kwh:7.2f} g CO₂e/kWh  "
                f"{region.year}  {region.name}"
            )
        print(f"source: {next(iter(regions().values())).source}")
        parser.exit()


def _add_regions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--regions", action=_ListRegions, nargs=0,
        help="list the regions with year and source, and exit",
    )  # fmt: skip


def _add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help="all must occur in a model's name, family or kind",
    )  # fmt: skip


COMMANDS = {
    "predict": Asking(
        **OF_TREE, question="energy",
        USAGE="MODEL [options]",
        EXAMPLES="""\
examples:
  irene predict bert-base-uncased -b 8 -s 128 --on pc1
  irene predict gpt2 -b 16 -s 256 --depth 3 --sort energy
  irene predict roberta-base -b 8 -s 128 --top 10
  irene predict ./my-model/config.json --html energy.html
  irene predict bert-base-uncased -b 8 --json > energy.json
  irene predict llama-3.1-8b --on b200 --batch 64 --prompt 750 --output 500
  irene predict llama-3.3-70b --on h200 -b 32 --phase decode --context 4096 \\
      --quantization fp8 --tensor-parallel 2
""",
    ),
    "trace": Asking(
        **OF_TREE, question="tree", doing="tracing",
        USAGE="MODEL [options]",
        EXAMPLES="""\
examples:
  irene trace bert-base-uncased -b 8 -s 128
  irene trace gpt2 --level math --depth 6
  irene trace llama-3.1-8b --phase decode --context 4096 --dtype bf16 --attention sdpa
  irene trace ./my-model/config.json --json > tree.json
  irene trace t5-base -s 512 --decoder-seq 64 --sort flops
  irene trace gpt2 --top 10
  irene trace gpt2 --html gpt2.html
  irene trace llama-3.1-8b -b 64 --prompt 750 --output 500
""",
    ),
    "bottlenecks": Asking(
        question="bottlenecks", draw=_draw_parts, add=_add_parts, more=_checked_top,
        USAGE="MODEL|TREE.json [options]",
        EXAMPLES="""\
MODEL may also be a saved tree, predicted or measured.

examples:
  irene bottlenecks bert-base-uncased -b 8 -s 128
  irene bottlenecks gpt2 --by primitive
  irene bottlenecks measured.json --by layer
  irene bottlenecks roberta-base -b 16 --plot bottlenecks.svg
""",
    ),
    "compare": Asking(
        question="compare", draw=plain_picture, add=_add_sides, positional="subject",
        subject_help="saved tree, or MODEL[@SIZE,…]; all are compared with the first",
        USAGE="A B [C …] [options]",
        EXAMPLES="""\
A, B, …: a saved tree, or a model with its own size and machine after an @:
  gpt2  gpt2@b16s256  gpt2@s256,fp16,sdpa  llama-3.2-1b@decode,c512  gpt2@on=lab.json
  b batch, s length, d decoder length, c context; the rest is as the options say

examples:
  irene compare bert-base-uncased roberta-base distilbert-base-uncased -b 8
  irene compare gpt2@b1 gpt2@b16 --per sequence
  irene compare bert-base-uncased gpt2 --by role --all
  irene compare predicted.json measured.json
  irene compare bert-base-uncased gpt2 --over batch_size
""",
    ),
    "what-if": Asking(
        question="what-if", draw=plain_picture, predicts_anew=True, more=_checked_plot,
        USAGE="MODEL [options]",
        EXAMPLES="""\
Lists are written 1,8,32 or 64:512:64 (from:to:step). FIELD is any field of the model's
config, or `model` for another model. The first size is the base that others are
compared with.

examples:
  irene what-if bert-base-uncased --set hidden_act=relu --set num_hidden_layers=6
  irene what-if bert-base-uncased --batch 1,8,32 --seq 64:512:64 --plot sizes.svg
  irene what-if gpt2 -b 8 --set activation_function=gelu_new,gelu_pytorch_tanh,relu
  irene what-if bert-base-uncased -b 8 --norm rms_norm --attention eager,sdpa
  irene what-if bert-base-uncased -b 8 --sensitivity
  irene what-if bert-base-uncased -b 8 --over seq_len --under 20
  irene what-if llama-3.1-8b --on b200 --batch 1,4,16,64,256 --phase decode \\
      --context 1024,8192 --plot batches.svg
  irene what-if llama-3.1-8b --on b200 -b 64 --prompt 750 --output 500 \\
      --quantization bf16,fp8
""",
    ),
    "trade-off": Asking(
        question="trade-off", draw=plain_picture, add=_add_file, more=_accuracies,
        USAGE="[options]",
        EXAMPLES="""\
FILE.csv has the columns model and accuracy, and may have energy_j (per sequence), split
and source. A model is a name, a config.json, a saved tree, or NAME@SIZE as in
`irene compare`. Without a file the published SST-2 accuracies are shown.

examples:
  irene trade-off -b 16 -s 128
  irene trade-off --budget-j 0.5
  irene trade-off --accuracy mine.csv --at-least 92
  irene trade-off --plot trade-off.svg
""",
    ),
    "cost": Asking(
        question="cost", add=_add_regions,
        USAGE="MODEL|TREE.json [options]",
        EXAMPLES="""\
MODEL may also be a saved tree, predicted or measured. A request is one sequence.

examples:
  irene cost bert-base-uncased -b 16 -s 128 --price 0.1319 --region DE --pue 1.2
  irene cost gpt2 -b 8 --requests 1e6 --per-day 250000 --region FR
  irene cost measured.json --intensity 50
  irene cost --regions
""",
    ),
    "plan-training": Asking(
        question="plan-training", subject_help=MODEL,
        USAGE="MODEL --tokens N [options]",
        EXAMPLES="""\
examples:
  irene plan-training gpt2 --tokens 2e9 --batch 8 --seq 1024 --on h100 --gpus 8
  irene plan-training llama-3.2-1b --tokens 1e10 --gpus 64 --checkpointing \\
      --price 0.12 --price-per-gpu-hour 2.5 --region SE --pue 1.2
""",
    ),
    "suggest": Asking(
        question="suggest", doing="asking", predicts_anew=True,
        USAGE="MODEL|TREE.json [options]",
        EXAMPLES="""\
MODEL may also be a saved tree of a model that the catalogue has.

examples:
  irene suggest bert-base-uncased -b 1 -s 128
  irene suggest gpt2 -b 8 -s 130
  irene suggest llama-3.2-1b -b 4 --json
""",
    ),
    "leaderboard": Asking(
        question="leaderboard", draw=plain_picture, add=_add_words,
        without=("search",), more=lambda options: {"search": " ".join(options.words)},
        USAGE="[WORD …] [options]",
        EXAMPLES="""\
The first time takes minutes; what was predicted is kept in the user's cache.

examples:
  irene leaderboard --kind encoder -b 16 -s 128
  irene leaderboard qwen --max-params 2e9
  irene leaderboard --family bert --csv > bert.csv
  irene leaderboard --kind decoder --phase decode --context 1024 --limit 20
  irene leaderboard --kind decoder --on h200 -b 64 --prompt 750 --output 500 \\
      --max-j-per-token 0.2
""",
    ),
    "serve-plan": Asking(
        question="serve-plan", draw=plain_picture, subject_help=MODEL,
        USAGE="MODEL --on LIST --max-latency TIME [options]",
        EXAMPLES="""\
All combinations are predicted; those whose weights and cache do not fit into memory are
left out. Without a list, batches of 1, 2, 4, … 1024 streams on 1, 2, 4 and 8 GPUs are
tried, in the precision that the model is published in. A latency is the mean time
between two tokens of a stream.

examples:
  irene serve-plan llama-3.1-70b --on h100,b200 --max-latency 50ms \\
      --prompt 750 --output 500
  irene serve-plan llama-3.1-8b --on h100,l40s --quantization bf16,fp8 \\
      --max-latency 30ms --max-first-token 1s --plot plan.svg
""",
    ),
}  # fmt: skip
