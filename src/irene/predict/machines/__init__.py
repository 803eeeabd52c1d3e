"""Machines behind one shape, `Machine`, by name or file.

- `finding`: `find_machine`; keyed by content, so that a new file counts at once;
  `added`: where machines of a user are.
- `domain`: what a machine was measured on, and how far beyond a run is.
- `memory_fit`: whether what a run needs lies in the machine's memory.
- `chosen`: the machine that is meant where nobody names one, and why.
- `predictor`: fitted machines, with rates of kernels from `specs`.
- `serial_machine`: machines that run one op after the other.
- `learned`: machines that `irene learn` has learned.
- `gpu`: data-centre GPUs.
"""
