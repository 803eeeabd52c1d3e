"""AMD GPUs through AMD's own library, `amdsmi`, which comes with ROCm.

An accumulator of energy times its resolution (µJ), or power (W) where there is none:
MI100 and older, and guests of virtual machines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from irene.errors import MeterError, library
from irene.meters.channel import NO_VALUE, Channel, Finding, SensorLostError, probed
from irene.meters.energy_counter import GrowingCounter

__all__ = ["AmdSmiMeter", "open_amdsmi", "probe"]

INSTALL = "pip install /opt/rocm/share/amd_smi"
ACCUMULATORS = ("energy_accumulator", "power")
"""Names of the count in releases of ROCm 6 and before."""
POWERS = ("current_socket_power", "average_socket_power")
UNKNOWN_ERROR = 0.1
GUESSED = "AMD states no error; 10 % is a guess"


class AmdSmiMeter:
    """All AMD GPUs; made by `open_amdsmi`."""

    name = "amdsmi"

    def __init__(self, library: Any, handles: list[Any]) -> None:
        self._library = library
        self._ask: list[Callable[[], float]] = []
        self.channels: tuple[Channel, ...] = ()
        for number, handle in enumerate(handles):
            for channel, ask in _sensor(library, handle, number):
                self.channels += (channel,)
                self._ask.append(ask)

    def read(self) -> list[float]:
        """Joules or watts of each GPU; `NO_VALUE` for one that gives none.

        Raises:
            SensorLostError: None gives anything, or the meter is closed.
        """
        values = [_value(ask) for ask in self._ask]
        if all(value != value for value in values):
            raise SensorLostError("no AMD GPU can be read any more")
        return values

    def close(self) -> None:
        """Let go of the library; closing twice is fine."""
        if self._ask:
            self._ask = []
            with contextlib.suppress(Exception):  # it may be gone already
                self._library.amdsmi_shut_down()


def _value(ask: Callable[[], float]) -> float:
    try:
        return ask()
    except Exception:  # noqa: BLE001  the library has errors of its own
        return NO_VALUE


def open_amdsmi() -> AmdSmiMeter:
    """Open all AMD GPUs.

    Raises:
        MeterError: There is none, or none gives power or energy.
        MissingExtraError: amdsmi is not installed.
    """
    smi = library("amdsmi", f"AMD GPUs are read with amdsmi: {INSTALL}")
    try:
        smi.amdsmi_init()
        handles = list(smi.amdsmi_get_processor_handles())
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise MeterError(
            f"amdsmi finds no GPU: {what}", "try `amd-smi list`"
        ) from error
    meter = AmdSmiMeter(smi, handles)
    if not meter.channels:
        raise MeterError(f"none of {len(handles)} AMD GPUs tells its power")
    return meter


def probe() -> Finding:
    """What amdsmi can read here; never raises."""
    return probed("amdsmi", open_amdsmi, install=INSTALL)


def _sensor(
    library: Any, handle: Any, number: int
) -> Iterator[tuple[Channel, Callable[[], float]]]:
    """The energy of a GPU, else its power, else nothing."""
    counter = GrowingCounter(1e-6)

    def energy_j() -> float:
        answer = library.amdsmi_get_energy_count(handle)
        count = next(answer[name] for name in ACCUMULATORS if name in answer)
        return counter.joules(float(count) * float(answer["counter_resolution"]))

    def power_w() -> float:
        answer = library.amdsmi_get_power_info(handle)
        return next(w for w in (_watts(answer.get(name)) for name in POWERS) if w == w)

    for quantity, ask in (("energy", energy_j), ("power", power_w)):
        if _value(ask) == _value(ask):
            yield (
                Channel(
                    f"amdsmi:{number}:{quantity}",
                    "energy_j" if quantity == "energy" else "power_w",
                    covers="gpu-board",
                    device=f"cuda:{number}",
                    relative_error=UNKNOWN_ERROR,
                    note=GUESSED,
                ),
                ask,
            )
            return


def _watts(value: Any) -> float:
    """A number, or `NO_VALUE` for `N/A` and for none."""
    return float(value) if isinstance(value, int | float) and value else NO_VALUE
