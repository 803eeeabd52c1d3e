"""The engines by name, each imported when it is asked for."""

from __future__ import annotations

from irene.run.engine import Engine
from irene.run.local import LocalEngine
from irene.run.ray_engine import RayEngine
from irene.run.slurm_engine import SlurmEngine
from irene.run.sweep import EngineSettings

__all__ = ["make_engine"]


def make_engine(settings: EngineSettings) -> Engine:
    """The engine that a sweep asks for; not open yet.

    Raises:
        MissingExtraError: What it needs is not installed.
    """
    if settings.kind == "ray":
        return RayEngine(settings.ray)
    if settings.kind == "slurm":
        return SlurmEngine(settings.slurm)
    return LocalEngine()
