"""Kineto: traces of the PyTorch profiler, from 2022 to today.

- `stream`: the file, one event at a time.
- `columns`: what is kept of it, as arrays.
- `links`: kernel → op, backward op → forward op.
- `places`: module, phase and step.
- `reader`: all of it together, `read_kineto`.
"""

from irene.account.readers.kineto.reader import KinetoTrace, Linking, read_kineto

__all__ = ["KinetoTrace", "Linking", "read_kineto"]
