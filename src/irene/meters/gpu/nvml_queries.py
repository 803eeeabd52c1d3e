"""What can be asked of one NVIDIA GPU through NVML, and the channels it fills.

A query fills one channel or two. Where the library knows several ways to ask for the
same thing they are tried in turn, and a GPU that answers none of them does without.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from irene.meters.channel import NO_VALUE, Channel, Sensor
from irene.meters.energy_counter import GrowingCounter

ORDER_GUESSED = (
    "which cuda number it has is a guess, as the GPUs differ: "
    "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the machine: its number at NVML, its names, its place on the bus."""

    index: int
    uuid: str
    bus_id: str
    model: str


@dataclass(frozen=True, slots=True)
class VisibleGpu:
    """A GPU that the program sees, as torch names it; what is not certain, or ""."""

    gpu: Gpu
    device: str
    note: str = ""


def visible_gpus(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    board_of: Callable[[str], str | None],
) -> tuple[VisibleGpu, ...]:
    """The GPUs that a program with this environment sees, in its own order.

    NVML knows all GPUs of the machine, in the order of the PCI bus; a program sees
    those that `CUDA_VISIBLE_DEVICES` lets through, numbered anew. The rules are those
    of the CUDA programming guide ("CUDA environment variables"), and for what it leaves
    open those that torch follows: a list ends at the first entry that names no GPU, and
    one that repeats a GPU shows none. `board_of` gives the UUID of the board that a
    `MIG-…` instance is part of, None if there is no such instance.
    """
    ordered = sorted(gpus, key=lambda gpu: gpu.bus_id)
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    # By default the fastest GPU comes first; equal ones are in the order of the bus.
    sure = by_bus or len({gpu.model for gpu in gpus}) <= 1
    if wanted is None:
        return _numbered([(gpu, sure) for gpu in ordered])
    found: list[tuple[Gpu, bool]] = []
    seen: set[str] = set()
    for entry in map(str.strip, wanted.split(",")):
        gpu = _named(entry, ordered, board_of)
        if gpu is None:
            break
        if entry in seen or (entry[:4] != "MIG-" and gpu in (f for f, _ in found)):
            return ()
        seen.add(entry)
        found.append((gpu, sure or not entry[:1].isdigit()))
    return _numbered(found)


def _named(
    entry: str, ordered: Sequence[Gpu], board_of: Callable[[str], str | None]
) -> Gpu | None:
    if entry.startswith("MIG-"):
        board = board_of(entry)
        return next((gpu for gpu in ordered if gpu.uuid == board), None)
    number = re.match(r"\d+", entry)
    if number:
        index = int(number.group())
        return ordered[index] if index < len(ordered) else None
    matches = [gpu for gpu in ordered if gpu.uuid.startswith(entry)] if entry else []
    return matches[0] if len(matches) == 1 else None  # the start of a UUID will do


def _numbered(found: Sequence[tuple[Gpu, bool]]) -> tuple[VisibleGpu, ...]:
    visible: dict[Gpu, VisibleGpu] = {}
    for number, (gpu, sure) in enumerate(found):
        note = "" if sure else ORDER_GUESSED
        # Several instances of one board share its sensor: the first gives the number.
        visible.setdefault(gpu, VisibleGpu(gpu, f"cuda:{number}", note))
    return tuple(visible.values())


SENSOR_S = 0.1
"""How often energy and power are new, s. Yang, Adamek and Armour (Part-time power
measurements, arXiv 2312.02741) saw 20 ms to 100 ms, by the GPU's generation."""
UTILISATION_S = 1.0
"""NVML's manual: the sample period is 1/6 s to 1 s, by product; the longest."""
BOARD_ERROR = 0.05
"""Error of energy and power under a steady load. NVML's manual says ±5 % (of Fermi and
Kepler; it says nothing of later ones, and earlier editions said ±5 W). Not part of it:
a load that changes within the sensor's window, see `PART_TIME`."""
PART_TIME = (
    "the sensor of this GPU sees a quarter of the time only (arXiv 2312.02741): "
    "repeat what lasts less than a second"
)
PART_TIME_GENERATIONS = ((8, 0), (9, 0))  # A100, H100, by compute capability
GA100 = (8, 0)
WHOLE_BOARD = "MIG is on: of the whole board, no instance has a sensor of its own"
VALUE_FIELDS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
BUSY = "share of time with a kernel running"
MOVING = "share of time with memory read or written"
HELD = "100 while heat or a power cap holds the clock down, else 0"
HELD_DOWN = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Bits of the clock event reasons for power caps and heat, software or hardware; the
others (idle, a clock somebody set, sync boost, display) are no sign of trouble."""


class GpuQueries:
    """Everything that one GPU answers, the best way to ask first.

    Attributes:
        queries: Those that it answers; where energy is counted, power is not.
        left_out: Name of each channel it does not give, and the library's reason.
        cost_s: How long one call of each query took, s, by its first channel.
    """

    def __init__(self, nvml: Any, handle: Any, visible: VisibleGpu) -> None:
        self.nvml, self.handle, self.visible = nvml, handle, visible
        self.capability = self._value_or(
            (0, 0), lambda: tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
        )
        mig = self._value_or([0, 0], lambda: nvml.nvmlDeviceGetMigMode(handle))
        notes = [visible.note, WHOLE_BOARD if mig[0] else ""]
        notes += [PART_TIME if self.capability in PART_TIME_GENERATIONS else ""]
        self.notes = [note for note in notes if note]
        self.left_out: dict[str, str] = {}
        self.cost_s: dict[str, float] = {}
        found = [each for ways in self._wishes() if (each := self._first(ways))]
        counted = any(c.quantity == "energy_j" for q in found for c in q.channels)
        self.queries = tuple(map(_powers_shown, found) if counted else found)

    def _first(self, ways: Sequence[Sensor]) -> Sensor | None:
        """The first way to ask that is answered."""
        reason = ""
        for query in ways:
            try:
                query.ask()
            except AttributeError:
                reason = reason or "this nvidia-ml-py does not know how to ask for it"
            except self.nvml.NVMLError as error:
                reason = str(error)
            else:
                begin = time.perf_counter()
                query.ask()
                self.cost_s[query.channels[0].name] = time.perf_counter() - begin
                return query
        self.left_out |= {channel.name: reason for channel in ways[0].channels}
        return None

    def _value_or(self, default: Any, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (self.nvml.NVMLError, AttributeError):
            return default

    def _wishes(self) -> list[list[Sensor]]:
        """Ways to ask, for each thing; energy first, for it is nearest to the clock."""
        gauge, board, one = self._gauge, self._board, self._one
        # NVML's manual: an average over 1 s on Ampere and newer, except GA100.
        over = "power averaged over 1 s" if self.capability > GA100 else "instant power"
        counter = board("energy", "energy_j", "counter of the driver")
        instant = board("power", "power_w", "instant power")
        busy = gauge("gpu", "percent", BUSY, UTILISATION_S)
        moving = gauge("mem_controller", "percent", MOVING, UTILISATION_S)
        in_use = gauge("gpu_mem", "percent", "share of memory in use")
        held = gauge("throttled", "percent", HELD)
        return [
            [one(counter, "TotalEnergyConsumption", GrowingCounter(1e-3).joules)],
            [
                Sensor((instant,), self._instant_w),
                one(
                    board("power", "power_w", over), "PowerUsage", lambda mw: mw * 1e-3
                ),
            ],
            [Sensor((busy, moving), self._utilisation)],
            [Sensor((in_use, gauge("memory_used", "bytes")), self._memory)],
            [one(gauge("sm_clock", "mhz"), "ClockInfo", float, "CLOCK_SM")],
            [one(gauge("mem_clock", "mhz"), "ClockInfo", float, "CLOCK_MEM")],
            [
                one(gauge("temperature", "celsius"), what, float, "TEMPERATURE_GPU")
                for what in ("TemperatureV", "Temperature")
            ],
            [
                one(held, f"CurrentClocks{word}Reasons", _held_down)
                for word in ("Event", "Throttle")
            ],
        ]

    def _one(
        self, channel: Channel, what: str, value: Callable[[Any], float], kind: str = ""
    ) -> Sensor:
        """Asks for one number: `nvmlDeviceGet…`, perhaps of a kind, `NVML_…`."""

        def ask() -> tuple[float, ...]:
            kinds = (getattr(self.nvml, f"NVML_{kind}"),) if kind else ()
            get = getattr(self.nvml, f"nvmlDeviceGet{what}")
            return (value(get(self.handle, *kinds)),)

        return Sensor((channel,), ask)

    def _instant_w(self) -> tuple[float, ...]:
        field = self.nvml.NVML_FI_DEV_POWER_INSTANT
        (value,) = self.nvml.nvmlDeviceGetFieldValues(self.handle, [field])
        if value.nvmlReturn != self.nvml.NVML_SUCCESS:
            raise self.nvml.NVMLError(value.nvmlReturn)
        return (getattr(value.value, VALUE_FIELDS[value.valueType]) * 1e-3,)

    def _utilisation(self) -> tuple[float, ...]:
        rates = self.nvml.nvmlDeviceGetUtilizationRates(self.handle)
        return float(rates.gpu), float(rates.memory)

    def _memory(self) -> tuple[float, ...]:
        memory = self.nvml.nvmlDeviceGetMemoryInfo(self.handle)
        share = 100.0 * memory.used / memory.total if memory.total else NO_VALUE
        return share, float(memory.used)

    def _board(self, what: str, quantity: Any, note: str) -> Channel:
        gauge = self._gauge(what, quantity, "; ".join([note, *self.notes]), SENSOR_S)
        return replace(gauge, covers="gpu-board", relative_error=BOARD_ERROR)

    def _gauge(
        self, what: str, quantity: Any, note: str = "", resolution_s: float = 0.0
    ) -> Channel:
        return Channel(
            f"nvml:{self.visible.gpu.index}:{what}",
            quantity,
            device=self.visible.device,
            resolution_s=resolution_s,
            note=note,
        )


def _powers_shown(query: Sensor) -> Sensor:
    shown = (
        replace(c, counted=c.counted and c.quantity != "power_w")
        for c in query.channels
    )
    return replace(query, channels=tuple(shown))


def _watts(milliwatts: float) -> float:
    return milliwatts * 1e-3


def _held_down(reasons: int) -> float:
    return 100.0 if reasons & HELD_DOWN else 0.0
