"""`irene leaderboard`: all models of the catalogue by their energy."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from irene.cli.asking.analysis_options import (
    add_answer_options,
    add_size_options,
    check_answer,
    number,
    put_answer,
    size_arguments,
)
from irene.cli.asking.serving_options import chosen_phase, usual_dtype
from irene.cli.options import whole_number
from irene.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.leaderboard import Leaderboard

__all__ = ["configure", "run"]

EXAMPLES = """\
The first time takes minutes; what was predicted is kept in the user's cache.

examples:
  irene leaderboard --kind encoder -b 16 -s 128
  irene leaderboard qwen --max-params 2e9
  irene leaderboard --family bert --csv > bert.csv
  irene leaderboard --kind decoder --phase decode --context 1024 --limit 20
  irene leaderboard --kind decoder --on h200 -b 64 --prompt 750 --output 500 \\
      --max-j-per-token 0.2
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene leaderboard [WORD …] [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help="all must occur in a model's name, family or kind",
    )  # fmt: skip
    group = parser.add_argument_group("which models")
    group.add_argument("--family", metavar="NAME", help="bert, gpt2, llama, …")
    group.add_argument("--kind", help="encoder, decoder, encoder-decoder, vision, …")
    group.add_argument("--min-params", type=number, metavar="N", help="such as 1e8")
    group.add_argument("--max-params", type=number, metavar="N", help="such as 1e9")
    group.add_argument(
        "--max-j-per-token", type=number, metavar="J",
        help="only models that take at most so much per token, such as 0.2; of a "
        "generation per output token",
    )  # fmt: skip
    group.add_argument(
        "--limit", type=whole_number, metavar="N",
        help="only the N models with the fewest parameters",
    )  # fmt: skip
    group.add_argument(
        "--jobs", type=whole_number, metavar="N",
        help="processes that predict at a time (default: one per processor)",
    )  # fmt: skip
    group.add_argument(
        "--no-cache", action="store_true", help="predict anew, and keep nothing"
    )
    add_size_options(parser, batch=8)
    add_answer_options(parser, table=True)


def run(options: argparse.Namespace) -> int:
    """Predict all and print them in order."""
    from irene.analyse.energy_cache import EnergyCache, default_cache
    from irene.analyse.leaderboard import choose_entries, rank_models
    from irene.cli.progress import progress_bar

    check_answer(options)
    for name in ("limit", "jobs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1, got {value}")
    sizes = size_arguments(options)
    entries = choose_entries(
        " ".join(options.words), family=options.family, kind=options.kind,
        least_params=options.min_params, most_params=options.max_params,
    )  # fmt: skip
    entries.sort(key=lambda entry: (entry.params, entry.name))
    cache = EnergyCache(None) if options.no_cache else default_cache()
    with progress_bar("predicting") as progress:
        found = rank_models(
            entries[: options.limit], sizes, options.on, cache=cache,
            jobs=options.jobs or os.cpu_count() or 1, progress=progress,
        )  # fmt: skip
    if options.max_j_per_token is not None:
        found = found.within(options.max_j_per_token)
    picture = None
    if options.plot:
        from irene.cli.asking.analysis_pictures import leaderboard_bars

        picture = leaderboard_bars(found)
    if put_answer(options, found.to_dict(), rows=found.table(), picture=picture):
        from irene.cli.screens.analysis_screen import screen

        _print(screen(), found, options)
    return 0


def _size(options: argparse.Namespace) -> str:
    phase = chosen_phase(options)
    dtype = options.dtype or usual_dtype(options.on)
    length = f"length {options.seq}"
    if phase == "generate":
        length = f"prompt {options.prompt or options.seq}, output {options.output}"
    return f"batch {options.batch}, {length}, {dtype}, {phase}"


def _print(console: Console, found: Leaderboard, options: argparse.Namespace) -> None:
    from irene.cli.screens.analysis_screen import columns
    from irene.cli.screens.cells import plain
    from irene.show.text import human_energy, human_spread
    from irene.tree import human

    table = columns(
        "#", "<model", "<kind", "params", "J per sequence", "per token", "interval",
        "FLOPs", "<",
    )  # fmt: skip
    for place, each in enumerate(found.models, start=1):
        assert each.energy is not None
        table.add_row(
            str(place),
            plain(each.model),
            each.kind,
            human(each.params),
            human_energy(each.per_sequence_j or 0.0),
            "–" if each.per_token_j is None else human_energy(each.per_token_j),
            human_spread(each.energy),
            human(each.flops),
            "*" if each.is_extrapolated else "",
        )
    title = f"{len(found.models)} models for {found.hardware}: {_size(options)}"
    console.print(plain(title), style="bold")
    console.print(table)
    console.print(
        "a sequence is one input: an image or clip for models that read no tokens, "
        "whatever --seq says",
        style="dim",
    )
    if any(each.is_extrapolated for each in found.models):
        console.print(f"* outside what {found.hardware} was measured on", style="dim")
    for each in found.left_out:
        console.print(f"left out: {each.model}: {each.problem}", markup=False)
