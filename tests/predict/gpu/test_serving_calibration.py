"""The calibration against measured servings, each model left out in turn."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks.serving_calibration import (
    Exam,
    Serving,
    coverage,
    examined,
    fit_calibrations,
    read_servings,
    served_ops,
    steps_j,
    width_of,
)

from irene.errors import FormatError, UsageError
from irene.predict.machines.gpu.serving_calibration import (
    Calibration,
    calibration_of,
    calibrations,
)

GPUS = ("h100", "b200")
HEADER = (
    "model,gpu,avg_batch_size,energy_per_token_j,output_tokens_per_s,avg_output_len,"
    "mean_generated_so_far\n"
)


@pytest.fixture(scope="module")
def servings() -> list[Serving]:
    folder = os.environ.get("IRENE_DATA_DIR")
    path = Path(folder or "") / "serving" / "mlenergy-v3-chat.csv"
    if not folder or not path.is_file():
        pytest.skip("IRENE_DATA_DIR is not set: it names the folder of serving")
    return read_servings(path)


@pytest.fixture(scope="module")
def exam(servings: list[Serving]) -> Exam:
    return examined(servings)


@pytest.mark.parametrize("gpu", GPUS)
def test_left_out_models_are_predicted_well(exam: Exam, gpu: str) -> None:
    errors = 100 * np.abs(np.expm1(exam.log_errors(gpu)))
    assert np.median(errors) <= 9
    known = 100 * np.abs(np.expm1(exam.log_errors(gpu, "j_per_token_known")))
    assert np.median(known) <= 9


def test_intervals_hold_four_of_five_runs_of_every_left_out_model(exam: Exam) -> None:
    nothing = {g: np.zeros(len(exam.log_errors(g))) for g in GPUS}
    for gpu, models in coverage(exam, nothing).items():
        assert min(models.values()) >= 0.8, gpu


def test_what_ships_is_what_the_data_give(servings: list[Serving], exam: Exam) -> None:
    for gpu, told in fit_calibrations(servings).items():
        shipped = calibration_of(gpu)
        assert shipped.joules_per_byte == pytest.approx(told.joules_per_byte, rel=0.03)
        assert shipped.energy_width == pytest.approx(width_of(exam, gpu), rel=0.1)


def made_up(told: Calibration) -> list[Serving]:
    """Servings that follow a calibration exactly."""
    plain = [
        Serving(model, gpu, batch, 300.0, 300.0, 1.0, 1.0)
        for model in ("qwen3-8b", "llama-3.2-1b", "qwen3-30b-a3b")
        for gpu in GPUS
        for batch in (4.0, 32.0, 200.0)
    ]
    found = []
    for each, run in zip(plain, served_ops(plain), strict=True):
        batch = float(run.batch)
        idle_w = run.device.sheet.idle_w
        step_j = run.kernels_j(told) + float(told.gap_j(batch, idle_w))
        waited_s = told.gap_s + told.wait_j / idle_w * run.batch
        found.append(
            Serving(
                each.model, each.gpu, each.batch_size, 300.0, 300.0,
                step_j / run.batch, run.busy_s + waited_s,
            )
        )  # fmt: skip
    return found


def test_the_fit_finds_the_numbers_that_made_the_data() -> None:
    truth = Calibration(2e-10, gap_s=2e-3, work_j=3e-3, wait_j=8e-3)
    servings = made_up(truth)
    found = fit_calibrations(servings)["b200"]
    assert found.joules_per_byte == pytest.approx(truth.joules_per_byte, rel=0.02)
    assert found.work_j + found.wait_j == pytest.approx(11e-3, rel=0.1)
    known, unknown = steps_j(served_ops(servings), found)
    truth_j = np.array([s.j_per_token * s.batch_size for s in servings])
    np.testing.assert_allclose(unknown, truth_j, rtol=0.02)
    np.testing.assert_allclose(known, truth_j, rtol=0.05)


def test_every_gpu_has_a_calibration_that_says_where_it_is_from() -> None:
    assert {"h100", "h200", "b200"} <= set(calibrations())
    assert "the same chip" in calibration_of("h200").source
    assert "other GPUs" in calibration_of("l40s").source
    for told in calibrations().values():
        numbers = [v for v in told.to_dict().values() if isinstance(v, float)]
        assert min(numbers) >= 0
        assert Calibration.from_dict(told.to_dict()) == told


def test_tables_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_servings(tmp_path / "none.csv")
    path = tmp_path / "some.csv"
    path.write_text(HEADER + "qwen3-8b,H100,8,much,600,300,300\n")
    with pytest.raises(FormatError, match="not a table of servings"):
        read_servings(path)
    path.write_text(HEADER + "qwen3-8b,H100,8,0.5,600,300,310\n")
    (one,) = read_servings(path)
    assert (one.gpu, one.step_s) == ("h100", pytest.approx(8 / 600))
    tree = one.tree()
    assert tree.spec is not None
    assert (tree.spec.output_len, tree.spec.context_len) == (300, 1060)
