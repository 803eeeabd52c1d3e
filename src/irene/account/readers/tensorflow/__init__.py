"""Traces of TensorFlow and JAX.

- `wire`: the bytes of a trace, and the protocol buffers in them; `xplane`: its format.
- `xplane_ops`: ops, marks and steps of it; `recorded_ops`: ops that are not events yet.
- `tensorflow_events`: TensorFlow 2 and Keras; `jax_events`: JAX; `tf1_timeline`:
  TensorFlow 1.
- `name_scopes`: layer and phase from the names of ops; `hlo`: from compiled programs.
"""

__all__: list[str] = []
