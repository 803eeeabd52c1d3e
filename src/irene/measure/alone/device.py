"""Where nodes are run: which device, how to wait for it, and how much it can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from irene.errors import LimitError, UsageError
from irene.human import human
from irene.meters.cpu.cpu_load import proc_root

__all__ = [
    "available_bytes",
    "check_memory",
    "choose_device",
    "synchroniser",
    "using_threads",
    "weight_bytes",
]

AUTO = "auto"
BACKENDS = ("cpu", "cuda", "mps", "xpu")


def choose_device(name: str = AUTO) -> str:
    """A device by name, as torch names it in full.

    Args:
        name: `cpu`, `cuda`, `cuda:1`, `mps`, …, or `auto` for the fastest there is.

    Raises:
        UsageError: There is no such device here.
    """
    if name == AUTO:
        found = (b for b in ("cuda", "xpu", "mps") if _count(b))
        name = next(found, "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"no device {name!r}: cpu, cuda, cuda:1, mps, …") from error
    if device.type not in BACKENDS:
        raise UsageError(
            f"{name} runs nothing: measuring needs one of {', '.join(BACKENDS)}"
        )
    there = _count(device.type)
    if (device.index or 0) >= there:
        seen = f"only {there}" if there else "no such device"
        raise UsageError(f"device {name}: torch sees {seen} here")
    return f"{device.type}:{device.index or 0}" if device.type != "cpu" else "cpu"


def _count(backend: str) -> int:
    if backend == "cpu":
        return 1
    if backend == "mps":
        return int(torch.backends.mps.is_available())
    module = getattr(torch, backend)
    return int(module.device_count()) if module.is_available() else 0


def synchroniser(device: str) -> Callable[[], None]:
    """A function that waits until a device has done all its work."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return lambda: None
    if kind == "mps":
        return torch.mps.synchronize
    return partial(getattr(torch, kind).synchronize, device)


def available_bytes(device: str) -> int | None:
    """Memory that a device still has, bytes; None where nobody tells."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with (proc_root(None) / "meminfo").open(encoding="ascii") as file:
            sizes = dict(line.split(":", 1) for line in file if ":" in line)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters and buffers, shared ones once."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum(tensor.numel() * tensor.dtype.itemsize for tensor in tensors)


def check_memory(model: nn.Module, name: str, device: str) -> None:
    """Refuse a model whose weights do not fit, before they are made.

    Args:
        model: On the meta device.
        name: What to call it.
        device: Where it would be built.

    Raises:
        LimitError: The device has less memory than the weights take.
    """
    needed, there = weight_bytes(model), available_bytes(device)
    if there is not None and needed > there:
        raise LimitError(
            f"the weights of {name} take {human(needed, 'B')}, and {device} has "
            f"{human(there, 'B')} left: use a smaller --dtype or another --device, or "
            "let `irene predict` answer, which needs no run"
        )


@contextmanager
def using_threads(threads: int | None) -> Iterator[int]:
    """Let torch use so many threads in the block; None for as many as it does.

    Raises:
        UsageError: Not a number of threads.
    """
    before = torch.get_num_threads()
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
