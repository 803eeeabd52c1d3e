"""Small models, a meter whose every value is known, and a protocol of milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from irene.measure.protocol import MeasureProtocol
from irene.meters.channel import NO_VALUE, Channel

WATTS = 20.0
BRISK = MeasureProtocol(
    rounds=2,
    round_s=0.004,
    extra_rounds=1,
    warm_up_s=0.0,
    idle_s=0.0,
    cool_s=0.0,
    period_s=0.01,
)
WALL = Channel("wall:power", "power_w", "wall", relative_error=0.02)


@dataclass
class SteadyMeter:
    """The same values for ever, until it is pulled out after some readings."""

    channels: Sequence[Channel] = (WALL,)
    values: Sequence[float] = (WATTS,)
    name: str = "wall"
    readings_left: float = float("inf")
    back_after: float = float("inf")
    asked: int = field(default=0)

    def read(self) -> Sequence[float]:
        self.asked += 1
        if self.readings_left < self.asked <= self.back_after:
            return [NO_VALUE] * len(self.channels)
        return list(self.values)

    def close(self) -> None:
        pass


class Layer(nn.Module):
    """A product, an in-place sum, a softmax."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dense(x)
        y += 1.0
        return torch.softmax(y @ x.transpose(-1, -2), -1) @ y


class Stack(nn.Module):
    """Two equal layers, and one of them called a second time."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(width), Layer(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.layers[0](x)


class Once(nn.Module):
    """Can be called a single time: it uses up what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.left = [1.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x) * self.left.pop()


class WithOnce(nn.Module):
    """A part that can be run alone, and one that cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.once = Once()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dense(x)
        return self.once(x) if self.once.left else x


def stack_input(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 8, 16, generator=torch.Generator().manual_seed(0))
