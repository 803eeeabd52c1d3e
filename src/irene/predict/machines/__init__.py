"""Machines behind one shape: fitted ones, serial ones, data-centre GPUs."""

__all__: list[str] = []
