"""`irene study`: the studies of the Smaragdine paper, on any model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from irene.cli.options import OUTPUT
from irene.cli.output import put_json, screen
from irene.cli.progress import progress_bar
from irene.errors import UsageError
from irene.parameters import Asked, number
from irene.show.terminal import columns
from irene.show.text import plain
from irene.spec import Attention, DType

if TYPE_CHECKING:
    from irene.account.studies import Conditions, Store, Study, Subject
    from irene.analyse.config_fields import ModelConfig

SHORT = {"num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "A"}
"""How the paper calls the sizes of a model."""
FOLLOWING = ("num_attention_heads", "intermediate_size")
"""Fields that grow with the width unless they are set, as in published models."""
RUNS = "the runs"
USAGE = "STUDY MODEL [MODEL2] [options]"
EXAMPLES = """\
grid       configurations of a model: median difference and correlation of every pair
evolution  one model against another, aligned by what their parts are for
modes      pre-training, fine-tuning and prediction of a model compared
precision  how well runs agree, by their number, their batches and the period

The models have random weights and run on this machine. Finished runs are kept in
FOLDER: after Ctrl-C or a crash, the same command goes on. With hidden_size, the heads
and the feed-forward width grow in proportion unless they are set, too.

examples:
  irene study grid bert-base-uncased --set hidden_size=512,768 \\
      --set num_hidden_layers=6,12
  irene study evolution bert-base-uncased albert-base-v2 -b 8 -s 128 --out albert
  irene study modes bert-base-uncased --steps 5 --runs 3
  irene study precision bert-base-uncased --runs 10 --steps 10 --period 0.004,0.02,0.1
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        study: Grid, evolution, modes, precision.
        models: Catalogue name, Hugging Face id, or path of a config.json; two for
            evolution.
        set: Field of the config, may be given several times; a list for grid, one
            value for the others.
        mode: What a step is (default finetuning); for modes, which are compared.
        batch: Sequences (images, clips) per step.
        seq: Tokens per sequence.
        steps: Steps (batches) that are recorded in a run.
        runs: How often everything is run.
        level: Record every op (default), or modules alone, which costs less.
        meters: Names of meters as in `irene doctor` (default: the best here).
        period: Period of the power samples, s (default 0.01); a list for precision.
        dtype: Number format.
        attention: How attention is computed.
        device: cpu, cuda, cuda:1, mps, …; auto (default): the fastest there is.
        threads: Threads of torch on the CPU.
        out: Where pictures, tables, summary.md and finished runs go (default:
            study-STUDY-MODEL).
        png: Pictures as PNG, too.
        fresh: Forget runs that are finished already.
        json: One JSON document: irene.study/1.
    """

    study: Annotated[
        Literal["grid", "evolution", "modes", "precision"],
        Asked(word=True, metavar="STUDY"),
    ]
    models: Annotated[tuple[str, ...], Asked(word=True, metavar="MODEL")]
    set: Annotated[tuple[str, ...], Asked(metavar="FIELD=VALUES")] = ()
    mode: tuple[Literal["pretraining", "finetuning", "prediction"], ...] = ()
    batch: Annotated[int, Asked(flags=("-b",), metavar="N", group=RUNS)] = 8
    seq: Annotated[int, Asked(flags=("-s",), metavar="N", group=RUNS)] = 128
    steps: Annotated[int, Asked(metavar="N", group=RUNS)] = 5
    runs: Annotated[int, Asked(metavar="N", group=RUNS)] = 3
    level: Annotated[Literal["op", "module"], Asked(group=RUNS)] = "op"
    meters: Annotated[str, Asked(metavar="LIST", group=RUNS)] = "auto"
    period: Annotated[str, Asked(metavar="S", group=RUNS)] = "0.01"
    dtype: Annotated[DType, Asked(group=RUNS)] = "fp32"
    attention: Annotated[Attention, Asked(group=RUNS)] = "eager"
    device: Annotated[str, Asked(group=RUNS)] = "auto"
    threads: Annotated[int | None, Asked(metavar="N", group=RUNS)] = None
    out: Annotated[str | None, Asked(metavar="FOLDER", group=OUTPUT)] = None
    png: Annotated[bool, Asked(group=OUTPUT)] = False
    fresh: Annotated[bool, Asked(group=OUTPUT)] = False
    json: Annotated[bool, Asked(group=OUTPUT)] = False


def run(options: Options) -> int:
    """Make the runs that are not kept, then write and print what was found."""
    fields = parse_fields(options.set)
    periods_s = [_seconds(text) for text in options.period.split(",")]
    _check(options, fields, periods_s)
    folder = Path(options.out or _default_folder(options))
    if options.png:
        from irene.show.picture import check_drawable

        check_drawable(folder / "energy.png")
    conditions = _conditions(options, periods_s[0])
    models = [each for name in options.models for each in subjects(name, fields)]
    with progress_bar(f"study {options.study}") as progress:
        from irene.account.studies import Store

        store = Store(folder / "runs", fresh=options.fresh, progress=progress)
        study = _study(options, models, conditions, store, periods_s)
    from irene.show.picture.study_pictures import StudyReport

    report = StudyReport(study)
    files = report.write(folder, png=options.png)
    if options.json:
        document = report.to_dict() | {"files": [str(file) for file in files]}
        put_json(document)
    else:
        _print(study, folder, len(files), store.performed)
    return 0


def _seconds(text: str) -> float:
    try:
        return number(text)
    except ValueError:
        raise UsageError(f"--period: {text!r} is not a number") from None


def _check(
    options: Options, fields: dict[str, list[Any]], periods: Sequence[float]
) -> None:
    """Refuse early what does not go together."""
    study = options.study
    wanted = 2 if study == "evolution" else 1
    if len(options.models) != wanted:
        words = "two models" if wanted == 2 else "one model"
        raise UsageError(f"{study} takes {words}, got {', '.join(options.models)}")
    lists = [name for name, values in fields.items() if len(values) > 1]
    if study == "grid" and not lists:
        raise UsageError(
            "a grid needs at least two configurations: give a field several values, "
            "as in --set num_hidden_layers=2,4"
        )
    if study != "grid" and lists:
        raise UsageError(f"--set {lists[0]}: only grid takes several values")
    if study != "precision" and len(periods) > 1:
        raise UsageError("--period: only precision takes several")
    if study != "modes" and len(options.mode) > 1:
        raise UsageError("--mode: only modes takes several")


def _default_folder(options: Options) -> str:
    names = [Path(name).name.removesuffix(".json") for name in options.models]
    return "-".join(("study", options.study, *names))


def _conditions(options: Options, period_s: float) -> Conditions:
    from irene.account.studies import Conditions
    from irene.meters.finding import names_in

    return Conditions(
        batch_size=options.batch,
        seq_len=options.seq,
        steps=options.steps,
        runs=options.runs,
        level=options.level,
        meters=tuple(names_in(options.meters)),
        period_s=period_s,
        dtype=options.dtype,
        attention=options.attention,
        device=options.device,
        threads=options.threads,
    )


def _study(
    options: Options,
    models: Sequence[Subject],
    conditions: Conditions,
    store: Store,
    periods_s: Sequence[float],
) -> Study:
    from irene.account import studies

    mode = (options.mode or ("finetuning",))[0]
    if options.study == "grid":
        return studies.grid(models, conditions, store, mode)
    if options.study == "evolution":
        return studies.evolution(models[0], models[1], conditions, store, mode)
    if options.study == "modes":
        return studies.modes(
            models[0], conditions, store, options.mode or studies.MODES
        )
    return studies.precision(models[0], conditions, store, periods_s, mode)


def _print(study: Study, folder: Path, files: int, performed: int) -> None:
    console = screen()
    console.print(plain(study.title), style="bold")
    table = columns("<finding", "value")
    for finding in study.findings:
        table.add_row(finding.name, finding.words)
    console.print(table)
    for note in study.notes:
        console.print(plain(note), style="yellow")
    console.print(
        f"{plain(str(folder))}: {files} files; summary.md first. {performed} runs were "
        "made, the others were kept from before.",
        style="dim",
    )


# The models, from names and `--set` -------------------------------------------------


def parse_fields(words: Sequence[str]) -> dict[str, list[Any]]:
    """Fields and their values.

    Args:
        words: Each `FIELD=VALUE,…`.
    """
    from irene.analyse.config_fields import parse_value

    found: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        values = [parse_value(value.strip()) for value in text.split(",")]
        if not name or not equals or "" in values:
            raise UsageError(f"--set {word}: write --set FIELD=VALUE,…")
        if name in found:
            raise UsageError(f"--set {name} is given twice")
        if len({repr(value) for value in values}) < len(values):
            raise UsageError(f"--set {word}: a value is given twice")
        found[name] = values
    return found


def subjects(model: str, fields: Mapping[str, Sequence[Any]]) -> list[Subject]:
    """A model with every combination of values."""
    from irene.account.studies import Subject
    from irene.analyse.config_fields import changed_config, read_config
    from irene.trace.limits import limits_from_environment

    base = read_config(model, None, limits_from_environment())
    found = []
    for values in itertools.product(*fields.values()):
        chosen = dict(zip(fields, values, strict=True))
        config = changed_config(base, _with_following(base, chosen))
        varied = {name: chosen[name] for name in fields if len(fields[name]) > 1}
        words = (f"{SHORT.get(name, name)}={value}" for name, value in varied.items())
        found.append(Subject(" ".join(words) or base.name, config, varied))
    return found


def _with_following(base: ModelConfig, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Changes with heads and feed-forward width in proportion to a new width."""
    found, known = dict(chosen), base.known
    old, new = known.get("hidden_size"), chosen.get("hidden_size")
    if not isinstance(old, int) or not isinstance(new, int) or old < 1:
        return found
    for name in FOLLOWING:
        value = known.get(name)
        if name not in chosen and isinstance(value, int) and value * new % old == 0:
            found[name] = max(1, value * new // old)
    return found
