"""A program of a user, which `make check` reads as mypy --strict would read theirs.

It is not run. Every function of the front door is used; a call that mypy must refuse
has an ignore, and an ignore that is not needed is an error.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import assert_type

from torch import nn

import irene
from irene.account import Ledger
from irene.analyse import (
    Advice,
    Bottlenecks,
    Comparison,
    Costing,
    Leaderboard,
    Sensitivity,
    TradeOff,
    WhatIf,
)

__all__ = ["ask", "look", "run", "serve"]


def look(module: nn.Module) -> irene.Node:
    """Trees: traced, predicted, measured, saved."""
    traced = irene.trace("gpt2", batch_size=8, seq_len=128, dtype="bf16")
    assert_type(traced, irene.ModelTree)
    tree = irene.predict(traced, on="pc1")
    own = irene.predict(module, {"x": 1}, attention="sdpa")
    here = irene.measure("gpt2", protocol="quick", phase="decode", context_len=64)
    tree.save("gpt2.json")
    assert_type(irene.load("gpt2.json"), irene.ModelTree)
    energy = (own or here).energy_of(0)
    assert energy is not None
    assert_type(energy, irene.Energy)
    assert_type(tree.hardware, irene.Hardware | None)
    assert_type(tree.spec, irene.RunSpec | None)
    irene.predict("gpt2", batch=8)  # type: ignore[call-arg]
    irene.predict("gpt2", dtype="fp31")  # type: ignore[arg-type]
    irene.trace("gpt2", on="pc1")  # type: ignore[call-arg]
    return tree.root


def ask() -> None:
    """Questions."""
    assert_type(irene.bottlenecks("gpt2", seq_len=64), Bottlenecks)
    assert_type(irene.compare("gpt2", "opt-125m", "token", batch_size=2), Comparison)
    assert_type(irene.cost("gpt2", price_per_kwh=0.3, region="DE"), Costing)
    assert_type(irene.curve("gpt2", over="batch_size").largest_under(1.0), int | None)
    assert_type(irene.suggest("gpt2", on="h100"), Advice)
    assert_type(irene.what_if("gpt2", {"n_layer": [6, 12]}), WhatIf)
    assert_type(irene.sensitivity("gpt2"), Sensitivity)
    assert_type(irene.trade_off(budget_j=1.0), TradeOff)
    assert_type(irene.leaderboard("bert", limit=3), Leaderboard)
    assert_type(irene.report("gpt2", without=("sizes",)), str)
    assert irene.card("gpt2", pue=1.2).notes
    assert irene.plan_training("gpt2", 1e9, gpus=8).notes
    irene.cost("gpt2", price=0.3)  # type: ignore[call-arg]
    irene.curve("gpt2", over="length")  # type: ignore[arg-type]
    irene.leaderboard("bert", max_params="1e9")  # type: ignore[arg-type]


def run(module: nn.Module, folder: Path) -> None:
    """A program under meters."""
    with irene.account(module, level="module", steps=3) as live:
        module(1)
    ledger: Ledger | None = live.ledger
    with irene.session(["procfs"], path=folder / "samples"), irene.window("step"):
        module(1)
    assert_type([total.name for total in irene.windows()], list[str])
    if ledger is not None:
        assert_type(irene.track(ledger, folder / "energy.csv"), dict[str, float])
    irene.account(module, level="layer")  # type: ignore[arg-type]


def serve() -> None:
    """A server, and how it is served."""
    server = irene.connect("http://localhost:8000", token="open sesame")
    assert_type(server.cost("gpt2", pue=1.2), Costing)
    with suppress(irene.IreneError):
        irene.serve_plan("llama-3.1-8b", ["h100", "b200"], max_latency="50ms").table()
