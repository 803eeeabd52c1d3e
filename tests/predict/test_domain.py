"""Beyond what was measured: how far, how much of the energy, and in which words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import irene
from irene.energy import difference
from irene.predict.intervals import BEYOND
from irene.predict.machines.finding import find_trained
from irene.tree import ModelTree
from irene.tree.headline import unfit

BASE = find_trained("pc1").widths.inside["model"]


def width(tree: ModelTree) -> float:
    energy = tree.energy_of(0)
    assert energy is not None
    return math.log(energy.high / energy.joules)


def notes(tree: ModelTree) -> list[str]:
    return [note for note in tree.notes if note.startswith("extrapolation")]


def test_inside_nothing_is_added() -> None:
    tree = irene.predict("bert-l2-h768", on="pc1", batch_size=8, seq_len=128)
    assert width(tree) == pytest.approx(BASE, rel=1e-3)
    assert notes(tree) == []
    # A pooler has few rows in runs of any size.
    energy = tree.energy_of(0)
    assert energy is not None
    assert not any(error.cause.startswith("tokens") for error in energy.errors)


@pytest.mark.parametrize("on", ["pc1", "default"])
def test_the_size_that_nobody_gives_is_inside(on: str) -> None:
    assert notes(irene.predict("bert-base-uncased", on=on)) == []


def test_a_phase_that_was_never_measured_is_said_and_called_an_assumption() -> None:
    tree = irene.predict("bert-l2-h768", on="pc1", phase="train")
    assert width(tree) == pytest.approx(math.hypot(BASE, BEYOND["phase"]), rel=1e-2)
    assert notes(tree)[0] == (
        "extrapolation: all of the energy is of phase train, which was never measured; "
        "that alone leaves it ± 65 %, an assumption"
    )


def test_a_length_that_was_never_measured_counts_by_the_energy_of_attention() -> None:
    tree = irene.predict("bert-l2-h768", on="pc1", batch_size=4, seq_len=512)
    (said,) = notes(tree)
    assert "in attention of a length never measured (512, not 32 to 256)" in said
    # Less than an octave's width: other kernels do not know the length.
    assert BASE < width(tree) < math.hypot(BASE, 0.3 * BEYOND["length"])


def test_farther_is_wider_smoothly() -> None:
    widths = [
        width(irene.predict("bert-l2-h768", on="pc1", batch_size=b, seq_len=128))
        for b in (48, 52, 64, 512, 4096)
    ]
    assert widths == sorted(widths)
    assert widths[1] < 1.05 * widths[0]  # no step at the edge
    assert widths[-1] > 3 * widths[0]


def test_more_energy_beyond_is_wider() -> None:
    """A head of two columns changes nothing, a head of many does, and is said."""

    class Headed(nn.Module):
        def __init__(self, outputs: int) -> None:
            super().__init__()
            self.body = nn.Sequential(*(nn.Linear(768, 768) for _ in range(32)))
            self.head = nn.Linear(768, outputs)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    found = [
        irene.predict(Headed(outputs), on="pc1", inputs=torch.zeros(1024, 768))
        for outputs in (768, 2, 30_000, 120_000)
    ]
    widths = [width(tree) for tree in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.06)
    assert widths[0] < widths[2] < widths[3]
    assert notes(found[1]) == []
    assert "(120,000, not 768 to 3,072)" in notes(found[3])[0]


@pytest.mark.parametrize(
    ("made", "inputs", "octaves", "said"),
    [
        (nn.LayerNorm(768), torch.zeros(8, 128, 768), 0.0, ""),
        (nn.LayerNorm(768), torch.zeros(64, 768), 2.0, "49,152, not 196,608 to"),
        (nn.ReLU(), torch.zeros(8, 8), 6.585, "64, not 6,144 to 18,874,368"),
        (nn.ReLU(), torch.zeros(1), 12.585, "1, not 6,144 to 18,874,368"),
        (nn.Embedding(9, 768), torch.zeros(9, 2048, dtype=torch.long), 1.585,
         "14,155,776, not 24,576 to 4,718,592"),
    ],
)  # fmt: skip
def test_a_module_without_products_knows_its_size(made, inputs, octaves, said) -> None:
    """Five percent outside are still inside; then it is 0.12 for each octave."""
    tree = irene.predict(made, on="pc1", inputs=inputs)
    beyond = BEYOND["elements"] * max(octaves - math.log2(1.05), 0.0)
    beyond = min(beyond, BEYOND["group"])  # far away a roofline is all there is
    assert width(tree) == pytest.approx(math.hypot(BASE, beyond), rel=0.02)
    words = f"in kernels of a size never measured ({said}"
    assert [words in note for note in notes(tree)] == [True] * bool(said)


@given(st.integers(1, 6_144), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_smaller_and_larger_kernels_are_never_surer(few: int, times: int) -> None:
    """Nor does anything beyond make them surer than what was measured."""
    many = 18_874_368 * times
    counts = (few, max(few // times, 1), many // times, many)
    near, away, inside, far = (
        width(irene.predict(nn.ReLU(), on="pc1", inputs=torch.empty(n, device="meta")))
        for n in counts
    )
    assert BASE <= near * (1 + 1e-9) <= away * (1 + 1e-9) ** 2
    assert inside == pytest.approx(BASE)
    assert inside <= far * (1 + 1e-9)


def test_kernels_that_nobody_measured_are_named_with_their_share() -> None:
    made = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU())
    tree = irene.predict(made, on="pc1", inputs=torch.zeros(8, 3, 64, 64))
    assert width(tree) > 0.3
    assert (
        "% of the energy is in kernels that were never measured (convolution)"
        in (notes(tree)[0])
    )


def test_a_loop_over_steps_is_named() -> None:
    class Scan(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = x[0]
            for step in range(64):
                state = state * 0.9 + x[step]
            return state

    tree = irene.predict(Scan(), on="pc1", inputs=torch.zeros(64, 256, 768))
    assert any("a loop over steps as it was traced" in note for note in notes(tree))


class Convolved(nn.Sequential):
    """Convolutions, of which nobody measured one."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 64, 3), nn.ReLU())


@pytest.mark.parametrize(
    ("cause", "one", "other", "shares"),
    [
        ("tokens", {"batch_size": 128}, {"batch_size": 256}, True),
        ("tokens", {"batch_size": 1, "seq_len": 32}, {"batch_size": 256}, False),
        ("phase", {"phase": "train"}, {"phase": "train", "batch_size": 16}, True),
        ("phase", {"phase": "train"}, {"phase": "decode"}, False),
        ("dtype", {"dtype": "fp16"}, {"dtype": "fp16", "batch_size": 16}, True),
        ("dtype", {"dtype": "fp16"}, {"dtype": "bf16"}, False),
    ],
)
def test_runs_share_an_error_beyond_in_one_direction(cause, one, other, shares) -> None:
    """What is too large tells nothing of what is too small, nor one type of another."""
    usual = {"on": "pc1", "batch_size": 8, "seq_len": 128}
    model = "gpt2" if cause == "phase" else "bert-l2-h768"
    runs = [irene.predict(model, **{**usual, **each}) for each in (one, other)]
    both = [tree.energy_of(0) for tree in runs]
    beyond = [{e.cause for e in energy.errors if e.cause.startswith(cause)}
              for energy in both]  # fmt: skip
    assert all(beyond)
    assert (beyond[0] == beyond[1]) == shares
    found = difference(*both)
    half = math.log(found.ratio_high / found.ratio)
    independent = math.hypot(*map(width, runs))
    assert (half < 0.8 * independent) == shares


def test_kernels_that_nobody_measured_are_wrong_each_in_its_own_way() -> None:
    images = torch.zeros(8, 3, 64, 64)
    small, large = (
        irene.predict(Convolved(), on="pc1", inputs=each).energy_of(0)
        for each in (images, images.repeat(2, 1, 1, 1))
    )
    other = irene.predict(
        nn.LSTM(256, 256), on="pc1", inputs=torch.zeros(64, 8, 256)
    ).energy_of(0)
    of_groups = [{e.cause for e in energy.errors if e.cause.startswith("group")}
                 for energy in (small, large, other)]  # fmt: skip
    assert of_groups[0] == of_groups[1] != set()
    assert of_groups[2]
    assert not of_groups[0] & of_groups[2]


@pytest.mark.parametrize("cause", ["width", "tokens", "length", "elements", "group"])
def test_a_wider_exam_makes_wider_intervals(cause: str) -> None:
    machine = find_trained("pc1")
    tree = irene.trace("bert-l2-h128", batch_size=1, seq_len=16, attention="sdpa")
    rates = {"beyond": {cause: 2 * machine.widths.rate(cause)}}
    wider = replace(machine, widths=replace(machine.widths, **rates))
    assert width(wider.predict(tree)) >= width(machine.predict(tree))
    folded = machine.predict(tree.fold())
    assert width(folded) == pytest.approx(width(machine.predict(tree)), rel=1e-9)


def test_what_does_not_fit_is_said_first() -> None:
    tree = irene.predict("bert-l2-h128", on="pc1", batch_size=4096, seq_len=512)
    need = tree.root.features["memory_share"] * 11 * 2**30
    assert need > 2 * 4 * 4096 * 2 * 512 * 512  # scores of two heads, in and out
    assert tree.notes[0].startswith("warning: ")
    assert "do not fit into 1 × 12 GB: smaller batches" in tree.notes[0]
    assert unfit(tree) == tree.notes[0].removeprefix("warning: ")
    small = irene.predict("bert-l2-h128", on="pc1", batch_size=8, seq_len=128)
    assert small.root.features["memory_share"] < 0.1
    assert not any("fit into" in note for note in small.notes)
    assert unfit(small) == ""
