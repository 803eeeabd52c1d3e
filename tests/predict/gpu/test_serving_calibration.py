"""The calibration against measured servings, each model family left out in turn."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.coverage import (
    apart_of,
    off_and_half,
    pairs_of,
    serving_rows,
    told_by_others,
)
from benchmarks.serving_calibration import (
    Exam,
    examined,
    fit_calibrations,
    width_of_alike,
    widths_of,
)
from benchmarks.servings import Serving, predicted, read_servings, served
from hypothesis import given
from hypothesis import strategies as st

from irene.energy import difference
from irene.errors import FormatError, UsageError
from irene.predict import predict
from irene.predict.machines.gpu.collectives import exchange_seconds, exchanges
from irene.predict.machines.gpu.kernel_ops import Gemm, Moe
from irene.predict.machines.gpu.run_likeness import APART
from irene.predict.machines.gpu.serving_calibration import (
    Calibration,
    calibration_of,
    calibrations,
    coarse,
    regime_of,
)

GPUS = ("h100", "b200")
HEADER = (
    "task,model,gpu,num_gpus,expert_parallel,weight_precision,max_num_seqs,"
    "avg_batch_size,energy_per_token_joules,output_throughput_tokens_per_sec,"
    "avg_output_len,mean_generated_so_far\n"
)


@pytest.fixture(scope="module")
def exam() -> Exam:
    folder = os.environ.get("IRENE_DATA_DIR")
    path = Path(folder or "") / "serving" / "mlenergy-v3-text.csv"
    if not folder or not path.is_file():
        pytest.skip("IRENE_DATA_DIR is not set: it names the folder of serving")
    clean = [each for each in read_servings(path) if each.is_clean]
    return examined(served(clean))


def test_ratios_hold_by_what_pairs_of_other_families_say(exam: Exam) -> None:
    groups = pairs_of(serving_rows(exam))
    told = told_by_others(groups)
    for name, pairs in groups.items():
        offs, halves = np.array([off_and_half(*told(pair)) for pair in pairs]).T
        inside = np.mean(offs <= halves)
        assert inside > 0.8, name
        assert inside < 0.97 or len(pairs) < 30, name  # of eight all may be
    # What ships is what all of them say.
    assert apart_of(groups) == pytest.approx(dict(APART), rel=0.25)


def test_left_out_families_are_predicted_well(exam: Exam) -> None:
    errors = exam.log_errors()
    assert np.median(np.abs(errors)) < 0.08
    assert np.quantile(np.abs(errors), 0.9) < 0.23
    assert abs(np.median(errors)) < 0.04
    assert np.median(np.abs(exam.log_errors("step_s"))) < 0.09
    plain = ["dense bf16 short" in regime for regime in exam.regimes]
    assert np.median(np.abs(errors[plain])) < 0.04


def test_intervals_hold_on_families_left_out(exam: Exam) -> None:
    """Widths of other families alone: nine of ten servings, most of every regime.

    Tables of experts in fp8 and fp4 add doubts of their own.
    """
    widths, widest = widths_of(exam)
    shipped = calibration_of("h100")
    assert shipped.energy_width == pytest.approx(widest, rel=0.1)
    assert shipped.energy_widths == pytest.approx(widths, rel=0.1)
    families = {each.family for each in exam.servings}
    told = {but: widths_of(exam, but=(but,))[0] for but in families}
    errors = np.abs(exam.log_errors())
    wide = [
        told[each.family][coarse(regime)]
        for each, regime in zip(exam.servings, exam.regimes, strict=True)
    ]
    inside = errors <= np.array(wide)
    assert 0.85 <= inside.mean() <= 0.95
    regimes = np.array([coarse(regime) for regime in exam.regimes])
    for regime in set(regimes):
        here = regimes == regime
        assert 0.75 <= inside[here].mean() <= 0.97, regime


def test_a_gpu_without_servings_is_told_so_and_wider() -> None:
    told, seen = calibration_of("a100"), calibration_of("h100")
    assert told.energy_widths == seen.energy_widths
    assert told.unserved > calibration_of("h200").unserved > seen.unserved == 0
    run = {"batch_size": 32, "prompt_len": 500, "output_len": 200}
    here, there = (predict("llama-3.1-8b", on=on, **run) for on in ("h100", "a100"))
    (note,) = [note for note in there.notes if note.startswith("extrapolation")]
    assert "on a100, where no serving was measured" in note
    assert there.energy_of(0).high / there.energy_of(0).joules > 1.2
    assert not any("no serving was measured" in note for note in here.notes)
    # it is one error of both runs, and cancels
    more = predict("llama-3.1-8b", on="a100", **{**run, "batch_size": 64})
    found = difference(there.energy_of(0), more.energy_of(0))
    assert found.ratio_high < 1.15 * found.ratio


ALIKE = np.array([1.0, 1.0, 0.1, 0.1])
FAMILIES = np.array(["a", "a", "b", "c"])


def test_a_width_is_that_of_like_servings() -> None:
    errors = np.array([0.1, 0.2, 0.3, 0.9])
    # 0.1 and 0.2 are worth 0.5 each of 1.2, and 0.3 makes it 0.917
    assert width_of_alike(errors, ALIKE, FAMILIES) == 0.3
    assert width_of_alike(errors, ALIKE**0, FAMILIES) == 0.9


@given(
    st.lists(st.floats(0, 2), min_size=4, max_size=4),
    st.lists(st.floats(0, 2), min_size=4, max_size=4),
)
def test_larger_errors_never_make_it_narrower(errors: list, more: list) -> None:
    small = np.array(errors)
    width = width_of_alike(small, ALIKE, FAMILIES)
    assert width_of_alike(small + np.array(more), ALIKE, FAMILIES) >= width
    assert width >= np.sort(small)[1]


def made_up(told: Calibration) -> list[Serving]:
    """Servings that follow a calibration exactly."""
    plain = [
        Serving(
            "lm-arena-chat", model, gpu, 1, 1, "bfloat16", 8, batch, 300.0, 300.0,
            1.0, 1.0,
        )
        for model in ("Qwen/Qwen3-8B", "meta-llama/Llama-3.2-1B", "Qwen/Qwen3-30B-A3B")
        for gpu in GPUS
        for batch in (4.0, 32.0, 200.0)
    ]  # fmt: skip
    found = []
    for runs in served(plain).values():
        energy, step_s = predicted(told, runs)
        rows = zip(runs.servings, energy.tolist(), step_s.tolist(), strict=True)
        found += [replace(s, j_per_token=j, step_s=t) for s, j, t in rows]
    return found


def test_the_fit_finds_the_numbers_that_made_the_data() -> None:
    truth = Calibration(
        1.6e-10, sequence_s=3e-5, layer_s=5e-5, memory_time=1.2, experts_share=0.2
    )
    runs = served(made_up(truth))
    all_found = fit_calibrations(runs)
    found = all_found["b200"]
    assert found.joules_per_byte == pytest.approx(truth.joules_per_byte, rel=0.05)
    assert found.layer_s == pytest.approx(truth.layer_s, rel=0.1)
    # vocabularies are too alike to tell a sequence from its logits
    (found_s, truth_s) = (
        told.sequence_s + 140_000 * told.logit_s for told in (found, truth)
    )
    assert found_s == pytest.approx(truth_s, rel=0.1)
    for gpu, here in runs.items():
        energy, step_s = predicted(all_found[gpu], here)
        np.testing.assert_allclose(energy, here.of("j_per_token"), rtol=0.05)
        np.testing.assert_allclose(step_s, here.of("step_s"), rtol=0.05)


def test_a_step_waits_for_layers_and_for_each_token_to_draw_from() -> None:
    told = calibration_of("h100")
    sizes = np.array(64.0), np.array(128_256.0), np.array(32.0)
    usual_s, full_s = told.gap(*sizes, False, False)
    for place, more_s in enumerate(
        (told.sequence_s * 64 + told.logit_s * 64 * 128_256,
         told.logit_s * 64 * 128_256, told.layer_s * 32)
    ):  # fmt: skip
        doubled = [size * (1 + (at == place)) for at, size in enumerate(sizes)]
        found_s, found_full_s = told.gap(*doubled, False, False)
        assert found_s - usual_s == pytest.approx(more_s)
        assert found_full_s / full_s == pytest.approx(2 if place == 0 else 1)


def test_streams_of_a_short_measurement_are_young() -> None:
    few = Serving(
        "lm-arena-chat", "x", "h100", 1, 1, "bfloat16", 8, 8.0, 400.0, 400.0, 1.0, 1.0
    )
    assert 0.98 * few.generated < few.past < few.generated
    # with exponential lengths and as many requests as two rounds, 1 / e of them
    many = replace(few, max_seqs=512)
    assert many.past == pytest.approx(400 * math.exp(-1))
    assert replace(many, task="sharegpt-v2").past == many.generated


def test_every_gpu_has_a_calibration_that_says_where_it_is_from() -> None:
    assert {"h100", "h200", "b200"} <= set(calibrations())
    assert "the same chip" in calibration_of("h200").source
    assert "other GPUs" in calibration_of("l40s").source
    for told in calibrations().values():
        numbers = [v for v in told.to_dict().values() if isinstance(v, float)]
        assert min(numbers) >= 0
        assert Calibration.from_dict(told.to_dict()) == told


def test_what_nobody_measured_has_the_widest_interval() -> None:
    told = calibration_of("b200")
    block = [Gemm(8, 64, 64), Moe(8, 64, 64, 2, 8, "fp8_block")]
    assert regime_of(block, 8, 300) == "experts fp8 short several"
    assert regime_of([Gemm(8, 64, 64)], 1, 4000) == "dense bf16 long one"
    assert told.width("experts fp4 long one") > told.width("dense bf16 long one")
    assert told.width("dense bf16 short one") < told.width("dense bf16 short several")
    assert told.width("hybrid bf16 long one") >= 2 * max(told.energy_widths.values())
    assert "layers of states" in told.unlike("hybrid bf16 long one")
    assert not told.unlike("experts fp4 long one")
    assert "weights in bf16" in calibration_of("rtx4090").unlike("dense bf16 long one")


def test_all_reduces_follow_their_law() -> None:
    laws = exchanges()["all_reduce"]["h100"]
    sent = np.array([1e3, 1e9, 2e9])
    time_s, width = exchange_seconds(laws, np.full(3, 8.0), sent)
    assert 3e-6 < time_s[0] < 1e-5
    assert time_s[2] / time_s[1] == pytest.approx(2.0, rel=0.05)
    assert 0 < width < 0.5
    # Of a number that nobody measured, that of the nearest one.
    sixteen, _ = exchange_seconds(laws, np.full(3, 16.0), sent)
    assert sixteen.tolist() == time_s.tolist()


def test_tables_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_servings(tmp_path / "none.csv")
    path, row = tmp_path / "some.csv", "lm-arena-chat,Qwen/Qwen3-8B,H100,1,1,bfloat16"
    path.write_text(HEADER + f"{row},8,8,much,600,300,300\n")
    with pytest.raises(FormatError, match="not a table of servings"):
        read_servings(path)
    path.write_text(HEADER + f"{row},800,8,0.5,600,300,310\n")
    (one,) = read_servings(path)
    assert (one.gpu, one.step_s) == ("h100", pytest.approx(8 / 600))
    assert not one.is_clean  # half of its prompts come again
    tree = one.tree()
    assert tree.spec is not None
    # a prompt of 350, and streams that are young: 1,024 requests for 800 of them
    assert (tree.spec.output_len, tree.spec.context_len) == (300, 384)
