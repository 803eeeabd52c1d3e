"""Recorded programs: traces of PyTorch, TensorFlow and JAX, and power logs.

- `recorded`: a trace and a power log, whatever their formats.
- `kineto`: traces of PyTorch; `tensorflow`: those of TensorFlow and JAX.
"""
