"""What a window used: one energy from all channels that count, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irene.energy import Energy, Source
from irene.meters.sampling.totals import Window

__all__ = ["WindowEnergy", "window_energy"]


@dataclass(frozen=True, slots=True)
class WindowEnergy:
    """The energy of a stretch of time.

    Attributes:
        energy: None where part of it is not known.
        notes: What a reader should know, in words.
    """

    energy: Energy | None
    notes: tuple[str, ...] = ()


def window_energy(channels: Sequence[Window]) -> WindowEnergy:
    """Add up what counts.

    The ends of the interval add up too: two meters of one machine may err alike.

    Args:
        channels: What every channel gave.
    """
    counted = [w for w in channels if w.channel.is_energy and w.channel.counted]
    if not counted:
        return WindowEnergy(None, ("no meter gives energy here: try `irene doctor`",))
    unknown = [w for w in counted if not w.complete]
    if unknown:
        return WindowEnergy(None, tuple(map(_unknown, unknown)))
    sources: set[Source] = {w.channel.source for w in counted}
    joules = sum(w.energy_j for w in counted)
    half_j = sum(w.half_width_j for w in counted)
    names = dict.fromkeys(w.channel.name.partition(":")[0] for w in counted)
    energy = Energy(
        joules,
        min(joules, max(0.0, joules - half_j)),
        joules + half_j,
        "estimated" if "estimated" in sources else "measured",
        " + ".join(names),
    )
    notes = [_short(w) for w in counted if w.duration_s < w.channel.resolution_s]
    notes += [w.channel.note for w in counted if w.channel.note]
    return WindowEnergy(energy, tuple(dict.fromkeys(notes)))


def _unknown(window: Window) -> str:
    name, step_s = window.channel.name, window.channel.resolution_s
    if window.duration_s < 2 * step_s:
        return (
            f"{name} had nothing new: it changes every {step_s:g} s, and the window "
            f"was {window.duration_s:.3g} s long"
        )
    return (
        f"{name} was known for {max(window.known_s, 0.0):.3g} of "
        f"{window.duration_s:.3g} s: no energy"
    )


def _short(window: Window) -> str:
    return (
        f"shorter ({window.duration_s:.3g} s) than a step of {window.channel.name} "
        f"({window.channel.resolution_s:g} s): see the interval"
    )
