"""`irene validate`: a predictor against runs it has never seen, measured here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from irene.cli.machines.machine_text import level_table
from irene.cli.output import put_json, say_written, screen
from irene.human import human_energy
from irene.parameters import Asked
from irene.show.terminal import columns

if TYPE_CHECKING:
    from irene.collect.validation import Examined
    from irene.predict.machines.predictor import Predictor
    from irene.spec import RunSpec

USAGE = "--on NAME [options]"
EXAMPLES = """\
Draws runs of models that the predictor has not learned from, measures them on this
machine, and compares. What is measured stays in the store; the same command goes on
after Ctrl-C, and the record of the exam is kept beside it.

examples:
  irene validate --on lab
  irene validate --on lab.json --runs 8 --seed 1 --exclusive
  irene validate --on lab --models albert-base-v2 electra-small-discriminator
  irene validate --on lab --store exam --compare-only --json
"""


RUNS, MEASUREMENT = "the runs", "the measurement"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        on: Hardware, or the file of a predictor: what is examined.
        runs: How many to measure.
        models: Of these models (default: drawn from the catalogue).
        largest: Parameters of the largest model that is drawn (default 5e7).
        seed: Decides what is drawn.
        full: 5 rounds of 2 s, not 3 rounds of 0.2 s.
        exclusive: Keep other processes off the CPUs during rounds (Linux, as root).
        threads: Of torch.
        store: Folder that keeps what is measured.
        compare_only: Measure nothing, compare with all that the store has.
        out: The record (default: validation.json in DIR).
        json: One JSON document.
    """

    on: Annotated[str, Asked(metavar="NAME")]
    runs: Annotated[int, Asked(least=1, metavar="N", group=RUNS)] = 6
    models: Annotated[tuple[str, ...], Asked(metavar="MODEL …", group=RUNS)] = ()
    largest: Annotated[float, Asked(least=1, metavar="N", group=RUNS)] = 50e6
    seed: Annotated[int, Asked(metavar="N", group=RUNS)] = 0
    full: Annotated[bool, Asked(group=MEASUREMENT)] = False
    exclusive: Annotated[bool, Asked(group=MEASUREMENT)] = False
    threads: Annotated[int | None, Asked(least=1, metavar="N", group=MEASUREMENT)] = (
        None
    )
    store: Annotated[str, Asked(metavar="DIR", group=MEASUREMENT)] = "validation"
    compare_only: Annotated[bool, Asked(group=MEASUREMENT)] = False
    out: Annotated[str | None, Asked(metavar="FILE")] = None
    json: bool = False


def run(options: Options) -> int:
    """Draw, measure, compare, keep the record and print it."""
    from irene.collect.validation import compare_with_store
    from irene.predict.machines.finding import find_trained

    predictor = find_trained(options.on)
    runs = None
    if not options.compare_only:
        runs = _measure(predictor, options)
    examined = compare_with_store(predictor, Path(options.store), runs)
    record = Path(options.out or Path(options.store) / "validation.json")
    examined.save(record)
    if options.json:
        put_json(examined.to_dict())
    else:
        _print(examined)
    say_written(record)
    return 0


def _measure(predictor: Predictor, options: Options) -> tuple[RunSpec, ...]:
    from irene.cli.data.collect import collect_sweep
    from irene.collect.sweep import Measurement
    from irene.collect.validation import choose_runs, exam_sweep

    runs = choose_runs(
        predictor.domain,
        options.runs,
        models=options.models or None,
        largest=options.largest,
        seed=options.seed,
    )
    measurement = Measurement(
        kind="full" if options.full else "quick",
        exclusive=options.exclusive,
        threads=options.threads,
    )
    sweep = exam_sweep(predictor, runs, measurement)
    report, status = collect_sweep(sweep, Path(options.store), "validate")
    if report.stopped:
        raise SystemExit(status)
    return runs


def _print(examined: Examined) -> None:
    console = screen()
    result = examined.evaluation
    table = columns("<model", "batch", "length", "measured", "predicted", "error", "in")
    for one in examined.runs:
        table.add_row(
            one.spec.model,
            f"{one.spec.batch_size}",
            f"{one.spec.seq_len}",
            f"{human_energy(one.measured_j)}{' (disturbed)' if one.disturbed else ''}",
            f"{human_energy(one.predicted_j)} ({human_energy(one.low_j)} – "
            f"{human_energy(one.high_j)})",
            f"{one.error_percent:+.1f} %",
            "yes" if one.covered else "no",
        )
    console.print(f"{result.predictor}, beside what was measured")
    console.print(table)
    errors = {row.model: row.errors.to_dict() for row in result.rows}
    errors["average"] = result.average.to_dict()
    print("", *level_table("error in %", errors), sep="\n")
    if result.coverage is not None:
        inside = {
            "nodes": {
                k: 100 * v
                for k, v in result.coverage.to_dict().items()
                if v is not None
            }
        }
        print("", *level_table("in their interval, %", inside), sep="\n")
        if result.promised_coverage is not None:
            print(f"promised: {result.promised_coverage:.0%}")
    for note in examined.notes:
        print(f"note: {note}")
