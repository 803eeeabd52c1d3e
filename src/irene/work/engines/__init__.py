"""Engines of one shape: `engine`, for this machine; `ray_engine`, `slurm_engine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from irene.work.engines.engine import Engine, LocalEngine
from irene.work.engines.ray_engine import RayEngine, RaySettings
from irene.work.engines.slurm_engine import SlurmEngine, SlurmSettings

__all__ = [
    "Engine",
    "EngineKind",
    "EngineSettings",
    "LocalEngine",
    "RayEngine",
    "RaySettings",
    "SlurmEngine",
    "SlurmSettings",
    "make_engine",
]

EngineKind = Literal["local", "ray", "slurm"]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Where the runs of a sweep are measured."""

    kind: EngineKind = "local"
    ray: RaySettings = field(default_factory=RaySettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)


def make_engine(settings: EngineSettings) -> Engine:
    """The engine that a sweep asks for; not open yet."""
    if settings.kind == "ray":
        return RayEngine(settings.ray)
    if settings.kind == "slurm":
        return SlurmEngine(settings.slurm)
    return LocalEngine()
