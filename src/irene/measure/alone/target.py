"""Target: a model that can be run, with its inputs, and the device that it is run on.

To keep other processes off the CPUs while a round runs, threads can be given real-time
priority: Linux runs these before all others; the kernel leaves the others 5 % of the
time all the same. Priorities belong to threads: a process that is killed leaves nothing
behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from irene.errors import LimitError, UsageError
from irene.human import human
from irene.measure.alone.capture import Capture, DistinctNode, distinct_nodes
from irene.meters.cpu.kernel_files import Roots
from irene.meters.machine import describe_machine
from irene.spec import RunOptions, RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.limits import Limits
from irene.trace.models import build, resolve
from irene.trace.positions import fit_positions
from irene.trace.tracer import run_recorded, spec_of_module
from irene.tree import ModelTree

Model = str | Path | PretrainedConfig | nn.Module
SEED = 0
USUAL_STD = 0.02
"""Standard deviation of the weights of most transformers when training begins."""
LARGEST_WEIGHT = 1e4
SMALLEST_NORMAL = 1e-30


@dataclass(frozen=True, slots=True)
class Target:
    """A model with inputs, where it is run; on `meta` it is only looked at."""

    model: nn.Module
    inputs: Any
    spec: RunSpec
    device: str
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def capture(self) -> tuple[ModelTree, list[DistinctNode]]:
        """Run it once, watched: its tree down to primitives, and its distinct nodes."""
        capture = Capture()
        tree = run_recorded(
            self.model,
            self.inputs,
            self.spec,
            dict(self.provenance),
            self.notes,
            self.device,
            capture,
        )
        return distinct_nodes(tree, capture)


def _check_run(spec: RunSpec, limits: Limits) -> None:
    """Refuse what cannot be run node by node."""
    if spec.phase == "train":
        raise UsageError(
            "nodes of a backward pass cannot be run alone: measure phase forward, "
            "prefill or decode; `irene account` follows a whole training step"
        )
    spec.refuse_serving("a measurement")
    limits.check_spec(spec)


def named_target(
    source: str | Path | PretrainedConfig,
    spec: RunSpec,
    device: str,
    limits: Limits,
) -> Target:
    """A model from its name or config, with random weights; on `meta` without any."""
    _check_run(spec, limits)
    resolved = resolve(source, limits, spec.model_class)
    spec = replace(spec, model=resolved.name, config_digest=resolved.digest)
    if device != "meta":
        check_memory(build(resolved, spec), resolved.name, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build(resolved, spec, device)
        make_sane(model)
        spec = fit_positions(model, spec)
        inputs = make_inputs(model, spec, device)
    provenance = {"config": resolved.origin, "device": device}
    return Target(model, inputs, spec, device, provenance, tuple(inputs.notes))


def own_target(
    model: nn.Module, inputs: Any, run: RunOptions, device: str, limits: Limits
) -> Target:
    """A model that is there already, with its own weights, where things can be run.

    A transformers model may do without inputs. `device` must be where the model is, or
    `auto`.
    """
    spec = spec_of_module(model, inputs, run)
    _check_run(spec, limits)
    home = home_of(model)
    if home == "meta":
        raise UsageError("the model is on the meta device: it has no weights to run")
    if device != "auto" and choose_device(device) != choose_device(home):
        raise UsageError(f"the model is on {home}: move it with model.to({device!r})")
    notes: tuple[str, ...] = ()
    if inputs is None:
        if not hasattr(model, "config"):
            raise UsageError(f"{type(model).__name__} needs inputs=")
        inputs = make_inputs(model, spec, home)
        notes = tuple(inputs.notes)
    device = choose_device(home)
    return Target(model, inputs, spec, device, {"device": device}, notes)


def make_sane(model: nn.Module) -> None:
    """Give weights that no initialiser has touched usual values.

    Memory as it was found can hold numbers that are not finite, or so small that a CPU
    takes a hundred times as long for them.
    """
    for parameter in model.parameters():
        if parameter.device.type == "meta" or not parameter.is_floating_point():
            continue
        size = parameter.detach().abs()
        tiny = (size > 0) & (size < SMALLEST_NORMAL)
        if not bool((size < LARGEST_WEIGHT).all()) or bool(tiny.any()):
            nn.init.normal_(parameter, std=USUAL_STD)


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
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


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
