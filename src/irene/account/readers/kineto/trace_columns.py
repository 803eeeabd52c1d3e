"""Columns of a Kineto trace: what the reader keeps of every event."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from irene.arrays import Floats, Ints

OP = 0
ANNOTATION = 1
MODULE = 2
RUNTIME = 3
KERNEL = 4  # from here on, what runs on an accelerator
COPY = 5
FILL = 6
KINDS = {
    "cpu_op": OP,
    "operator": OP,  # until 2022
    "user_annotation": ANNOTATION,
    "python_function": MODULE,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
    "hip_runtime": RUNTIME,
    "xpu_runtime": RUNTIME,
    "privateuse1_runtime": RUNTIME,
    "mtia_runtime": RUNTIME,
    "runtime": RUNTIME,
    "kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": FILL,
    "memset": FILL,
}
MODULE_PREFIX = "nn.Module: "
NONE = -1
ROW = struct.Struct("=9q6d")


@dataclass(frozen=True, slots=True)
class Columns:
    """One row for each event that is kept.

    Of `names`, `lanes` (process and thread, or device and stream) and `shapes` of
    inputs, in words, rows have the place. -1 is no number (of `forward_thread` also 0),
    NaN not known. `skipped` events have no usable time.
    """

    kind: Ints
    name: Ints
    lane: Ints
    shape: Ints
    external: Ints
    correlation: Ints
    sequence: Ints
    forward_thread: Ints
    device: Ints
    ts_us: Floats
    duration_us: Floats
    threads: Floats
    blocks_per_sm: Floats
    bytes: Floats
    flops: Floats
    names: tuple[str, ...]
    lanes: tuple[str, ...]
    shapes: tuple[str, ...]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.kind)


def collect(events: Iterable[dict[str, Any]]) -> Columns:
    """Keep the columns of the events that matter."""
    names: dict[str, int] = {}
    lanes: dict[tuple[Any, Any], int] = {}
    shapes = {"[]": 0}
    rows = bytearray()
    pack, kinds = ROW.pack, KINDS
    skipped = 0
    for event in events:
        if event.get("ph") != "X":
            continue
        kind, name = kinds.get(_category(event)), event.get("name")
        if kind is None or not isinstance(name, str):
            continue
        if kind == MODULE and not name.startswith(MODULE_PREFIX):
            continue
        lane = lanes.setdefault((event.get("pid"), event.get("tid")), len(lanes))
        shape = shapes.setdefault(_dimensions(kind, event), len(shapes))
        fixed = kind, names.setdefault(name, len(names)), lane, shape
        values = _values(kind, event)
        try:
            rows += pack(*fixed, *values)
        except struct.error:  # identifiers as text, or no usable time
            try:
                rows += pack(*fixed, *map(_whole, values[:5]), *values[5:])
            except struct.error:
                skipped += 1
    return _columns(bytes(rows), tuple(names), lanes, shapes, skipped)


def _category(event: dict[str, Any]) -> str:
    category = event.get("cat")
    if category in KINDS:
        return str(category)
    return str(category).lower()


def _dimensions(kind: int, event: dict[str, Any]) -> str:
    """Shapes of the inputs of an op, where the profiler has recorded them."""
    args = event.get("args") if kind == OP else None
    return str(args.get("Input Dims", "[]")) if isinstance(args, dict) else "[]"


def _in_words(shapes: str) -> str:
    """`[[8, 64], [64, 4], []]` is `8×64, 64×4`: numbers beside tensors have none."""
    found = re.findall(r"\[([\d, ]+)\]", shapes)
    return ", ".join(each.replace(", ", "×") for each in found)


def _values(kind: int, event: dict[str, Any]) -> tuple[Any, ...]:
    """What is kept of an event, as it stands in the file."""
    args = event.get("args")
    get = args.get if isinstance(args, dict) else {}.get
    nan = math.nan
    threads = blocks = moved = flops = nan
    device: Any = NONE
    if kind >= KERNEL:
        device = get("device", event.get("pid"))
        if kind == KERNEL:
            threads = _product(get("grid")) * _product(get("block"))
            blocks = _real(get("blocks per SM"))
        else:
            moved = _real(get("bytes"))
    elif kind == OP:
        flops = _real(get("flops", nan))
    return (
        get("External id", NONE),
        get("correlation", NONE),
        get("Sequence number", NONE),
        get("Fwd thread id", 0),
        device,
        event.get("ts"),
        event.get("dur"),
        threads,
        blocks,
        moved,
        flops,
    )


def _columns(
    rows: bytes,
    names: tuple[str, ...],
    lanes: Iterable[tuple[Any, Any]],
    shapes: Iterable[str],
    skipped: int,
) -> Columns:
    kinds = [("whole", np.int64, (9,)), ("real", np.float64, (6,))]
    table = np.frombuffer(rows, dtype=kinds)
    timed = np.isfinite(table["real"][:, :2]).all(axis=1)
    timed &= table["real"][:, 1] >= 0
    skipped += int((~timed).sum())
    whole, real = table["whole"][timed].T.copy(), table["real"][timed].T.copy()
    labels = tuple(f"{process}/{thread}" for process, thread in lanes)
    words = tuple(map(_in_words, shapes))
    columns: list[Any] = [*whole, *real, names, labels, words, skipped]
    return Columns(*columns)


def _whole(value: object) -> int:
    """An identifier; some traces write them as text."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return NONE
    return int(number) if abs(number) < 2**63 else NONE


def _product(sizes: object) -> float:
    if isinstance(sizes, list) and all(isinstance(size, int) for size in sizes):
        return float(math.prod(sizes))
    return math.nan


def _real(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
