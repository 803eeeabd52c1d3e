"""Traces of TensorFlow and JAX."""

__all__: list[str] = []
