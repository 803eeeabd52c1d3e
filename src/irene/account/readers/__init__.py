"""Recorded programs: traces of PyTorch, TensorFlow and JAX, and power logs."""

__all__: list[str] = []
