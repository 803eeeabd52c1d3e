"""Traces of TensorFlow and JAX."""
