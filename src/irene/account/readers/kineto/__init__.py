"""Kineto: traces of the PyTorch profiler, from 2022 to today.

- `stream`: the file, one event at a time.
- `trace_columns`: what is kept of it, as arrays.
- `linking`: kernel → op, backward op → forward op; module and phase.
- `reader`: all of it together, `read_kineto`.
"""

from irene.account.readers.kineto.reader import read_kineto

__all__ = ["read_kineto"]
