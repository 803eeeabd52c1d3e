"""`irene.measure(model)`: a model in, a tree with measured energy out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Unpack

import torch
from torch import nn

from irene.errors import UsageError
from irene.measure.alone.bench import Bench
from irene.measure.alone.journal import Journal, journal_path
from irene.measure.alone.node_by_node import (
    Listener,
    Plan,
    make_plan,
    measure_nodes,
    measured_tree,
)
from irene.measure.alone.target import (
    Model,
    Target,
    check_exclusive,
    choose_device,
    environment,
    home_of,
    named_target,
    own_target,
    synchroniser,
    using_threads,
)
from irene.measure.protocol import DEFAULT, PAPER, QUICK, MeasureProtocol
from irene.meters.channel import Meter
from irene.meters.sampling.sampler_process import open_sampler
from irene.spec import RunOptions, RunSpec, shows_run_options
from irene.trace.limits import Limits, limits_from_environment
from irene.trace.tracer import name_of
from irene.tree import ModelTree
from irene.work.lock import alone_on

PROTOCOLS = {"default": DEFAULT, "quick": QUICK, "paper": PAPER}
"""Protocols by name."""
JournalMaker = Callable[[Mapping[str, Any]], Journal]


@shows_run_options
def measure(
    model: Model,
    inputs: Mapping[str, Any] | tuple[Any, ...] | torch.Tensor | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    exclusive: bool = False,
    protocol: str | MeasureProtocol = "default",
    rounds: int | None = None,
    round_s: float | None = None,
    meters: Sequence[Meter] | Sequence[str] | None = None,
    name: str = "this-machine",
    journal: Path | Literal["auto"] | JournalMaker | None = None,
    fresh: bool = False,
    progress: Listener | None = None,
    limits: Limits | None = None,
    **run: Unpack[RunOptions],
) -> ModelTree:
    """Run every distinct node of a model alone, under power meters.

    Only one measurement at a time runs on a device of the machine: another one, of
    whichever process, is waited for.

    Args:
        model: Catalogue name, Hugging Face id, path of a config.json, transformers
            config (all with random weights), or any nn.Module, as it is.
        inputs: For an nn.Module: its inputs, as keyword arguments, a tuple or a single
            tensor. A transformers model may do without.
        device: `cpu`, `cuda`, `cuda:1`, `mps`, …; `auto` for the fastest there is, or
            where an nn.Module is.
        threads: Threads of torch on the CPU; None for as many as it uses.
        exclusive: Whether to keep other processes off the CPUs during rounds, which
            needs root and Linux.
        protocol: `default`, `quick`, `paper`, or one of your own.
        rounds: Rounds that count, instead of the protocol's.
        round_s: Least length of a round, s, instead of the protocol's.
        meters: Open meters, or names of meters; None for the best here.
        name: What to call this machine in the result.
        journal: File that keeps every finished node; `auto` for one in the user's cache
            that is named by run, machine and protocol; a function that makes one from
            what is measured, where and how; None for none.
        fresh: Whether to forget what the journal has.
        progress: Is told of every step.
        limits: What is refused; by default `DEFAULT_LIMITS`.
        **run: How it is run: `batch_size`, `seq_len`, `dtype`, `attention`, `phase`
            (`forward`, `prefill` or `decode`), …, the fields of `RunSpec`. An nn.Module
            has its own dtype and attention, its inputs their own sizes.

    Returns:
        The tree, unfolded, down to ML primitives. Its energies are gross; the features
        of its nodes hold latencies, spreads, loads and net energies.

    Raises:
        UsageError: The model is unknown, a size is impossible, the model's own code
            fails, or it does not fit.
        MeterError: No meter here counts energy.
    """
    chosen = _choose_protocol(protocol, rounds, round_s)
    if exclusive:
        check_exclusive()
    with ExitStack() as stack:
        where = (
            home_of(model) if isinstance(model, nn.Module) else choose_device(device)
        )
        stack.enter_context(alone_on(where))
        used_threads = stack.enter_context(using_threads(threads))
        names = ["auto"] if meters is None else meters
        period_s = chosen.period_s
        sampler = open_sampler(names, period_s, pid=os.getpid())
        stack.enter_context(sampler)
        target = _target(model, inputs, device, limits, run)
        wait = synchroniser(target.device)
        bench = Bench(sampler, chosen, target.device, wait, exclusive)
        machine = environment(target.device, used_threads)
        machine |= {"priority": "real-time"} if exclusive else {}
        diary = _journal(target, machine, bench, journal, fresh)
        book = stack.enter_context(diary) if diary is not None else None
        tree, nodes = target.capture()
        plan = make_plan(nodes, chosen, target.device, used_threads)
        bench.watch_idle()
        results = measure_nodes(nodes, bench, plan, book, progress)
        return measured_tree(tree, nodes, results, bench, machine, name)


@shows_run_options
def plan_measurement(
    model: Model,
    inputs: Any = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    protocol: str | MeasureProtocol = "default",
    rounds: int | None = None,
    round_s: float | None = None,
    limits: Limits | None = None,
    **run: Unpack[RunOptions],
) -> Plan:
    """What `measure` would run and about how long it would take; nothing is run.

    The arguments are those of `measure`.
    """
    chosen = _choose_protocol(protocol, rounds, round_s)
    with using_threads(threads) as used_threads:
        where = choose_device(device)
        target = _target(model, inputs, device, limits, run, only_looked_at=True)
        _, nodes = target.capture()
        return make_plan(nodes, chosen, where, used_threads)


def _choose_protocol(
    protocol: str | MeasureProtocol,
    rounds: int | None = None,
    round_s: float | None = None,
) -> MeasureProtocol:
    """A protocol by name or as it is, with some values changed."""
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise UsageError(f"no protocol {protocol!r}; there are {[*PROTOCOLS]}")
        protocol = PROTOCOLS[protocol]
    return protocol.changed(rounds=rounds, round_s=round_s)


def _target(
    model: Model,
    inputs: Any,
    device: str,
    limits: Limits | None,
    run: RunOptions,
    only_looked_at: bool = False,
) -> Target:
    """The model where it is run, or on the meta device, with inputs."""
    limits = limits or limits_from_environment()
    if isinstance(model, nn.Module):
        return own_target(model, inputs, run, device, limits)
    where = "meta" if only_looked_at else choose_device(device)
    return named_target(model, RunSpec.asked(name_of(model), run), where, limits)


def _journal(
    target: Target,
    machine: Mapping[str, str],
    bench: Bench,
    journal: Path | Literal["auto"] | JournalMaker | None,
    fresh: bool,
) -> Journal | None:
    if journal is None:
        return None
    header = {
        "spec": target.spec.to_dict(),
        "machine": dict(machine),
        "channels": [[c.name, c.source, c.counted] for c in bench.sampler.channels],
        "protocol": asdict(bench.protocol),
    }
    if callable(journal):
        return journal(header)
    path = journal_path(header, target.spec.digest) if journal == "auto" else journal
    return Journal(Path(path), header, fresh)
