"""GPUs and accelerators: NVML, AMD SMI, and chips that `zeus` reaches."""
