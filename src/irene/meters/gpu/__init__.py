"""GPUs and accelerators: NVML, and what `zeus` reaches."""
