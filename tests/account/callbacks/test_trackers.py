"""Energy in the trackers themselves: real packages, offline, read back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import irene
from irene.account.callbacks.trackers import ARTEFACT, LEDGER, figures_of, track
from irene.errors import UsageError
from irene.measure.windows.monitoring import monitor

from ...measure.made_up_power import made_up_meter


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Three steps of a small model."""
    meter = made_up_meter(tmp_path_factory.mktemp("power") / "power.csv")
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    with irene.account(model, meters=[meter], period_s=0.005) as found:
        for _ in range(3):
            model(torch.ones(256, 64)).sum().backward()
            found.step()
    return found


def test_figures_are_those_of_the_ledger(ledger):
    figures = figures_of(ledger)
    assert figures == figures_of(ledger.ledger)
    assert figures["energy/total_j"] == pytest.approx(ledger.measured_j)
    phases = {row.name: row.energy_j for row in ledger.by_phase()}
    assert figures["energy/phase/forward_j"] == pytest.approx(phases["forward"])
    assert {"energy/module/0_j", "energy/module/1_j", "energy/step_j"} <= set(figures)


def test_a_csv_file_grows(ledger, tmp_path):
    path = tmp_path / "energy.csv"
    for step in (1, 2):
        figures = irene.track(ledger, path, step=step)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 2 * len(figures)
    last = {row["name"]: float(row["value"]) for row in rows if row["step"] == "2"}
    assert last == pytest.approx(figures)
    kept = json.loads((tmp_path / f"energy-{LEDGER}").read_text())
    assert kept == json.loads(ledger.to_json())


def test_windows_and_programs_are_tracked(tmp_path):
    meter = made_up_meter(tmp_path / "power.csv")
    with irene.session(meters=[meter]), irene.window("epoch") as window:
        sum(range(1000))
    found = track(window, tmp_path / "energy.csv")
    assert set(found) >= {"energy/window/epoch_j", "energy/window/epoch_s"}
    whole = monitor(["true"], meters=[meter])
    assert set(figures_of(whole)) == {f"energy/program_{u}" for u in "jws"}


def test_tensorboard(ledger, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    figures = track(ledger, f"tensorboard:{tmp_path}", step=3)
    events = EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Scalars("energy/total_j")
    assert event.step == 3
    assert event.value == pytest.approx(figures["energy/total_j"], rel=1e-6)
    (text,) = events.Tensors(f"{LEDGER}/text_summary")
    assert json.loads(text.tensor_proto.string_val[0]) == json.loads(ledger.to_json())


@pytest.mark.filterwarnings("ignore")  # its own
def test_mlflow(ledger, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("alembic", reason="mlflow-skinny has no SQLite store")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with pytest.raises(UsageError, match="no run of MLflow"):
        track(ledger, "mlflow")
    mlflow.create_experiment("energy", artifact_location=(tmp_path / "a").as_uri())
    mlflow.set_experiment("energy")
    with mlflow.start_run() as run:
        figures = track(ledger, "mlflow", step=3)
    kept = mlflow.get_run(run.info.run_id).data.metrics
    assert kept == pytest.approx(figures)
    (file,) = (tmp_path / "a").rglob(LEDGER)
    assert json.loads(file.read_text()) == json.loads(ledger.to_json())


@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases(ledger, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    with pytest.raises(UsageError, match="no run of Weights & Biases"):
        track(ledger, "wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(mode="offline", dir=tmp_path, project="energy") as run:
        figures = track(ledger, "wandb", step=3)
        run.log({"other": 1.0}, step=4)  # a step is complete when the next begins
        kept = dict(run.summary)
    assert {name: kept[name] for name in figures} == pytest.approx(figures)


@pytest.mark.filterwarnings("ignore")
def test_trackio(ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    with pytest.raises(UsageError, match="no run of Trackio"):
        track(ledger, "trackio")
    trackio.init(project="energy", name="first")
    figures = track(ledger, "trackio", step=3)
    # Of its own keeping: servers are sent it when the file is long gone.
    folder = trackio.use_artifact(ARTEFACT).download(tmp_path / "back")
    trackio.finish()
    (row,) = trackio.SQLiteStorage.get_logs("energy", "first")
    assert row["step"] == 3
    assert {name: row[name] for name in figures} == pytest.approx(figures)
    kept = Path(folder, LEDGER).read_text()
    assert json.loads(kept) == json.loads(ledger.to_json())


@pytest.mark.parametrize("to", ["neptune", "tensorboard", "wandb:x", "energy.tsv", ""])
def test_unknown_trackers_are_named(ledger, to):
    with pytest.raises(UsageError, match="no tracker"):
        track(ledger, to)


def test_what_cannot_be_logged_is_told(ledger, tmp_path):
    with pytest.raises(UsageError, match="is logged, not int"):
        figures_of(3)
    with pytest.raises(UsageError, match=r"cannot write .*no\.csv"):
        track(ledger, tmp_path / "nowhere" / "no.csv")
    with pytest.raises(UsageError, match="there is no ledger yet"):
        figures_of(irene.account())


def test_a_missing_package_is_named(ledger, monkeypatch):
    import sys

    from irene.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match="pip install mlflow"):
        track(ledger, "mlflow")


def test_paths_may_be_paths(ledger, tmp_path: Path):
    track(ledger, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").exists()
