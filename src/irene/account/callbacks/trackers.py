"""Energy in the tracker that a run is logged to anyway.

irene.track(ledger, "wandb")                    the run that is open
irene.track(ledger, "mlflow")
irene.track(ledger, "trackio")
irene.track(ledger, "tensorboard:runs/first")   a folder of event files
irene.track(window, "energy.csv", step=7)       a line per figure
irene monitor --track energy.csv -- COMMAND

A ledger gives its total, every phase, device and module, and goes there whole as a
file; a window and what was monitored give energy, power and time.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from irene.account.ledger.ledger import Ledger
from irene.account.live.session import LiveLedger
from irene.errors import UsageError, library
from irene.measure.windows.monitored import Monitored
from irene.measure.windows.window import EnergyWindow
from irene.tables import csv_of_rows

ARTEFACT = "irene-ledger"
TO_FILES = ("csv", "tensorboard")
"""Trackers that need no run to be open."""
LEDGER = "irene-ledger.json"
PREFIX = "energy"
MOST_MODULES = 100
"""Modules that are logged one by one, the largest; the ledger has all."""


def track(
    found: Ledger | LiveLedger | EnergyWindow | Monitored,
    to: str | Path,
    *,
    step: int | None = None,
) -> dict[str, float]:
    """Log energy to a tracker.

    Args:
        found: A ledger, a window that has ended, or what was monitored.
        to: `wandb`, `mlflow` or `trackio`, for the run that is open there;
            `tensorboard:FOLDER`; or the path of a CSV file, which is added to.
        step: Number of the step that it belongs to.

    Returns:
        The figures that were logged, by name.

    Raises:
        UsageError: There is no such tracker, or no run is open there.
        MissingExtraError: Its package is not installed.
    """
    kind, where = tracker_of(str(to))
    figures = figures_of(found)
    with tempfile.TemporaryDirectory(prefix="irene-") as folder:
        file = None
        ledger = found.ledger if isinstance(found, LiveLedger) else found
        if isinstance(ledger, Ledger):
            file = Path(folder, LEDGER)
            file.write_text(ledger.to_json(), encoding="utf-8")
        TRACKERS[kind](figures, file, step, where)
    return figures


def tracker_of(to: str) -> tuple[str, str]:
    """Which tracker is meant, and the file or folder that it writes to."""
    kind, _, where = ("csv", "", to) if to.endswith(".csv") else to.partition(":")
    if kind not in TRACKERS or bool(where) != (kind in TO_FILES):
        raise UsageError(
            f"no tracker {to!r}: use wandb, mlflow, trackio, tensorboard:FOLDER or "
            "the path of a .csv file"
        )
    return kind, where


def figures_of(
    found: Ledger | LiveLedger | EnergyWindow | Monitored,
) -> dict[str, float]:
    """What is logged, by name: J, W and s; what is not known is left out."""
    if isinstance(found, LiveLedger):
        if found.ledger is None:
            raise UsageError("there is no ledger yet: log it after its block")
        found = found.ledger
    if isinstance(found, Ledger):
        figures = _of_ledger(found)
    elif isinstance(found, EnergyWindow):
        figures = _of_span(f"{PREFIX}/window/{found.name}", found)
    elif isinstance(found, Monitored):
        figures = _of_span(f"{PREFIX}/program", found)
    else:
        raise UsageError(
            "a ledger, a window or what was monitored is logged, not "
            f"{type(found).__name__}"
        )
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _of_ledger(ledger: Ledger) -> dict[str, float]:
    modules = ledger.by_module()
    figures = {
        f"{PREFIX}/total_j": ledger.measured_j, f"{PREFIX}/total_s": ledger.window_s,
    }  # fmt: skip
    steps = [row.steps for row in modules if row.depth == 0 and row.steps]
    figures |= {f"{PREFIX}/step_j": spread.mean_j for spread in steps}
    largest = sorted(modules, key=lambda row: -row.energy_j)[:MOST_MODULES]
    named = {
        "phase": [(row.name, row.energy_j) for row in ledger.by_phase()],
        "device": [(row.name, row.energy_j) for row in ledger.by_device()],
        "module": [(row.path, row.energy_j) for row in largest if row.path],
    }
    for kind, rows in named.items():
        figures |= {f"{PREFIX}/{kind}/{name or 'none'}_j": j for name, j in rows}
    return figures


def _of_span(name: str, found: EnergyWindow | Monitored) -> dict[str, float]:
    energy, power_w = found.energy, found.mean_power_w
    return {
        f"{name}_j": energy.joules if energy else math.nan,
        f"{name}_w": math.nan if power_w is None else power_w,
        f"{name}_s": found.duration_s,
    }


# Trackers ---------------------------------------------------------------------

Figures = Mapping[str, float]


def _library(name: str, package: str) -> Any:
    return library(name, f"{package} is not installed: pip install {package}")


def _wandb(figures: Figures, file: Path | None, step: int | None, _: str) -> None:
    wandb = _library("wandb", "wandb")
    if wandb.run is None:
        raise UsageError("no run of Weights & Biases is open: wandb.init() first")
    wandb.run.log(dict(figures), step=step)
    if file is not None:
        artefact = wandb.Artifact(ARTEFACT, type="energy")
        artefact.add_file(str(file))
        wandb.run.log_artifact(artefact)


def _mlflow(figures: Figures, file: Path | None, step: int | None, _: str) -> None:
    mlflow = _library("mlflow", "mlflow")
    if mlflow.active_run() is None:
        raise UsageError("no run of MLflow is open: mlflow.start_run() first")
    mlflow.log_metrics(dict(figures), step=step)
    if file is not None:
        mlflow.log_artifact(str(file))


def _trackio(figures: Figures, file: Path | None, step: int | None, _: str) -> None:
    trackio = _library("trackio", "trackio")
    try:
        trackio.log(dict(figures), step=step)
    except RuntimeError as error:
        raise UsageError("no run of Trackio is open: trackio.init(…) first") from error
    if file is not None:
        trackio.log_artifact(str(file), ARTEFACT, "energy")


def _tensorboard(
    figures: Figures, file: Path | None, step: int | None, where: str
) -> None:
    tensorboard = _library("torch.utils.tensorboard", "tensorboard")
    with closing(tensorboard.SummaryWriter(where)) as writer:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        if file is not None:
            writer.add_text(LEDGER, file.read_text(encoding="utf-8"), step)


def _csv(figures: Figures, file: Path | None, step: int | None, where: str) -> None:
    path = Path(where)
    now = f"{time.time():.3f}"
    rows = [[now, step, name, value] for name, value in figures.items()]
    text = csv_of_rows(["time", "step", "name", "value"], rows)
    if path.exists():
        text = text.partition("\n")[2]
    try:
        with path.open("a", encoding="utf-8", newline="") as out:
            out.write(text)
        if file is not None:
            path.with_name(f"{path.stem}-{LEDGER}").write_bytes(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


TRACKERS: Mapping[str, Callable[[Figures, Path | None, int | None, str], None]] = {
    "wandb": _wandb, "mlflow": _mlflow, "trackio": _trackio,
    "tensorboard": _tensorboard, "csv": _csv,
}  # fmt: skip
