"""Where nodes are run: which device, how to wait for it, and how much it can hold.

To keep other processes off the CPUs while a round runs, threads can be given real-time
priority: Linux runs these before all others; the kernel leaves the others 5 % of the
time all the same. Priorities belong to threads: a process that is killed leaves nothing
behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import nn

from irene.errors import LimitError, UsageError
from irene.human import human
from irene.meters.cpu.kernel_files import Roots
from irene.meters.machine import describe_machine

AUTO = "auto"
PRIORITY = 1
TASKS = Path("/proc/self/task")
BACKENDS = ("cpu", "cuda", "mps", "xpu")


def choose_device(name: str = AUTO) -> str:
    """A device by name, or the fastest there is (`auto`), as torch names it in full."""
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


def home_of(model: nn.Module) -> str:
    """The device that a module is on, as torch names it."""
    return next((str(p.device) for p in model.parameters()), "cpu")


def environment(device: str, threads: int) -> dict[str, str]:
    """The machine and the software that runs on it, in words."""
    import transformers

    return {
        **describe_machine(),
        "device": device,
        "threads": str(threads),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
    }


def synchroniser(device: str) -> Callable[[], None]:
    """A function that waits until a device has done all its work."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return lambda: None
    if kind == "mps":
        return torch.mps.synchronize
    return partial(getattr(torch, kind).synchronize, device)


def available_bytes(device: str, of_all: bool = False) -> int | None:
    """Memory that a device still has, or of all, bytes; None where nobody tells."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[of_all])
    try:
        with (Roots().proc / "meminfo").open(encoding="ascii") as file:
            sizes = dict(line.split(":", 1) for line in file if ":" in line)
        name = "MemTotal" if of_all else "MemAvailable"
        return int(sizes[name].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return None


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters and buffers, shared ones once."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum(tensor.numel() * tensor.dtype.itemsize for tensor in tensors)


def check_memory(model: nn.Module, name: str, device: str) -> None:
    """Refuse a model whose weights do not fit, before they are made."""
    needed, there = weight_bytes(model), available_bytes(device)
    if there is not None and needed > there:
        raise LimitError(
            f"the weights of {name} take {human(needed, 'B')}, and {device} has "
            f"{human(there, 'B')} left: use a smaller --dtype or another --device, or "
            "let `irene predict` answer, which needs no run"
        )


@contextmanager
def using_threads(threads: int | None) -> Iterator[int]:
    """Let torch use so many threads in the block; None for as many as it does."""
    before = torch.get_num_threads()
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def check_exclusive() -> None:
    """Refuse where threads cannot be given real-time priority."""
    if not (hasattr(os, "sched_setscheduler") and TASKS.is_dir()):
        raise UsageError("keeping other processes off the CPUs needs Linux")
    try:
        with _real_time():
            pass
    except OSError as error:
        raise UsageError(
            f"keeping other processes off the CPUs is not allowed ({error.strerror}): "
            "run as root, or with CAP_SYS_NICE"
        ) from error


@contextmanager
def _real_time() -> Iterator[None]:
    """Run the threads of this process and of its children before all others."""
    changed: list[int] = []
    try:
        for thread in _threads():
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(PRIORITY))
                changed.append(thread)
        yield
    finally:
        for thread in changed:
            _back_to_normal(thread)


def _back_to_normal(thread: int) -> None:
    try:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    except ProcessLookupError:  # it has ended meanwhile
        return


def _threads() -> list[int]:
    """Threads of this process, and of the processes it has started (the sampler)."""
    found = []
    for task in TASKS.iterdir():
        found.append(int(task.name))
        try:
            children = (task / "children").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended, or the kernel does not tell
            continue
        found += map(int, children)
    return found


def exclusively(wanted: bool) -> AbstractContextManager[None]:
    """Real-time priority in the block if it is wanted."""
    return _real_time() if wanted else nullcontext()
