"""Traces of TensorFlow and JAX.

- `wire`: the bytes of a trace, and the protocol buffers in them; `xplane`: its format.
- `recorded_ops`: its ops, marks and steps, which are not events yet.
- `xplane_events`: TensorFlow 2 and Keras, JAX; `tf1_timeline`: TensorFlow 1.
- `name_scopes`: layer and phase from the names of ops; `hlo`: from compiled programs.
"""
