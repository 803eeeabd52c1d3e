"""Which GPUs a CUDA program sees, and under which number.

NVML knows all GPUs of the machine, in the order of the PCI bus; a program sees those
that `CUDA_VISIBLE_DEVICES` lets through, numbered anew. The rules are those of the CUDA
programming guide ("CUDA environment variables"), and for what it leaves open those that
torch follows: a list ends at the first entry that names no GPU, and one that repeats a
GPU shows none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ORDER_GUESSED = (
    "which cuda number it has is a guess, as the GPUs differ: "
    "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the machine.

    Attributes:
        index: Its number at NVML and in `nvidia-smi`.
        uuid: `GPU-…`, as the driver names it.
        bus_id: Its place on the PCI bus, which sorts.
        model: Name of the product.
    """

    index: int
    uuid: str
    bus_id: str
    model: str


@dataclass(frozen=True, slots=True)
class VisibleGpu:
    """A GPU that the program sees.

    Attributes:
        gpu: Which.
        device: How torch names it, `cuda:0`.
        note: What is not certain about it, or "".
    """

    gpu: Gpu
    device: str
    note: str = ""


def visible_gpus(
    gpus: Sequence[Gpu],
    environment: Mapping[str, str],
    board_of: Callable[[str], str | None],
) -> tuple[VisibleGpu, ...]:
    """The GPUs that a program with this environment sees, in its own order.

    Args:
        gpus: All GPUs of the machine.
        environment: Environment variables of the program.
        board_of: UUID of the board that a `MIG-…` instance is part of, None if there
            is no such instance.
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
