from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

import irene
from irene.account import Ledger
from irene.meters.channel import Channel


class SteadyMeter:
    """A machine that always takes the same."""

    name = "steady"
    channels = (Channel("wall:power", "power_w", "wall"),)

    def read(self) -> list[float]:
        return [40.0]

    def close(self) -> None:
        pass


def test_the_front_door_records() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with irene.account(model, level="module", meters=[SteadyMeter()]) as ledger:
        model(torch.zeros(1, 4))
    assert {row.path for row in ledger.by_module()} >= {"0"}
    assert isinstance(ledger.ledger, Ledger)


def test_naming_it_imports_no_torch() -> None:
    program = "import irene, sys; irene.account(); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
