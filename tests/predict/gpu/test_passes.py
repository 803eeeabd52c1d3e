"""Plain passes on GPUs: what a kernel takes beyond its table."""

import math
from typing import Any, cast

import numpy as np
import pytest

from irene.predict.api import predict
from irene.predict.intervals import BEYOND
from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.kernel_models import ROUGH
from irene.predict.machines.gpu.passes import passes, passes_of
from irene.trace.tracer import trace
from irene.tree import ModelTree


def forward(model: str, on: str = "h100", **run: int) -> ModelTree:
    return predict(model, on=on, phase="forward", **cast(Any, run))


def power_w(tree: ModelTree) -> float:
    return (tree.total().energy_j or 0.0) / float(tree.features["time_s"][0])


def test_kernels_take_longer_than_their_tables_and_wait_for_their_launch() -> None:
    told = passes_of("h100")
    busy_s, taken_s = told.seconds(np.array([1e-6, 1e-3]))
    assert busy_s == pytest.approx([told.time * 1e-6, told.time * 1e-3])
    assert taken_s == pytest.approx([told.host_s, told.time * 1e-3])


@pytest.mark.parametrize(("on", "peak"), [("h100", 989e12), ("b200", 2250e12)])
def test_a_large_pass_is_as_fast_and_draws_as_much_as_measured_ones(
    on: str, peak: float
) -> None:
    """Diffusion models reach a fifth to two fifths of the peak at most of the limit."""
    tree = forward("bert-large-uncased", on, batch_size=64, seq_len=512)
    sheet = find_gpu(on).device.sheet
    rate = tree.total().flops / float(tree.features["time_s"][0])
    assert 0.15 < rate / peak < 0.45
    assert 0.75 * sheet.tdp_w < power_w(tree) < 0.95 * sheet.tdp_w
    assert any("as in 6 diffusion models" in note for note in tree.notes)


def test_short_kernels_wait_and_are_less_sure() -> None:
    small, large = (forward("bert-base-uncased", batch_size=b) for b in (1, 64))
    sheet = find_gpu("h100").device.sheet
    assert sheet.idle_w < power_w(small) < 0.6 * power_w(large)
    assert any("that wait for their launch" in note for note in small.notes)
    assert not any("that wait for their launch" in note for note in large.notes)
    widths = [
        math.log(energy.high / energy.low)
        for energy in (tree.root.energy for tree in (small, large))
        if energy
    ]
    assert widths[0] > 1.1 * widths[1]


def test_products_that_no_pass_had_are_doubted() -> None:
    """Convolutions are in measured passes; recurrent layers and groups are not."""
    import torch

    def wide(module: torch.nn.Module, *shape: int) -> tuple[float, str]:
        given = torch.zeros(*shape, dtype=torch.bfloat16, device="meta")
        module = module.to(device="meta", dtype=torch.bfloat16)
        tree = predict(trace(module, given), on="h100")
        energy = tree.root.energy
        assert energy is not None
        return math.log(energy.high / energy.low) / 2, "\n".join(tree.notes)

    usual = passes_of("h100").energy_width
    width, notes = wide(torch.nn.Conv2d(512, 512, 3, padding=1), 64, 512, 64, 64)
    assert width == pytest.approx(usual, rel=0.01)
    assert "without a measurement" not in notes
    steps = torch.nn.LSTM(1024, 4096, 1)
    width, notes = wide(torch.nn.Sequential(steps), 256, 64, 1024)
    assert width == pytest.approx(math.hypot(usual, ROUGH[1]), rel=0.02)
    assert "without a measurement (LSTM)" in notes
    width, notes = wide(steps, 256, 64, 1024)  # by itself traced step by step
    assert width > math.hypot(usual, BEYOND["group"])
    assert "in a loop over steps as it was traced" in notes


def test_bytes_of_fp32_are_counted_once() -> None:
    """Activations of fp32 are twice those of bf16: twice the time, not four times."""
    import torch

    add, shape = torch.nn.ReLU(), (64, 1024, 4096)
    half, full = (
        predict(trace(add, torch.zeros(*shape, dtype=dtype, device="meta")), on="h100")
        for dtype in (torch.bfloat16, torch.float32)
    )
    times = [float(tree.features["time_s"][0]) for tree in (half, full)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.1)


def test_what_ships_is_between_tables_and_the_limit() -> None:
    assert {"h100", "b200", "h200", "rtx4090", "unseen"} == set(passes())
    for told in passes().values():
        assert told.time > 1
        assert 0 < told.power_share < 1
        assert 0 < told.energy_width < 0.6
    assert passes_of("l40s") is passes()["unseen"]
    assert passes()["unseen"].energy_width > passes()["h100"].energy_width
