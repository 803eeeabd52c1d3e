"""GPUs and accelerators: NVML, and what `zeus` reaches."""

__all__: list[str] = []
