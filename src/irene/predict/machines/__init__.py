"""Machines behind one shape, `Machine`, by name or file.

- `finding`: `find_machine`; keyed by content, so that a new file counts at once.
- `predictor`: fitted machines, with rates of kernels from `specs`.
- `serial_machine`: machines that run one op after the other.
- `gpu`: data-centre GPUs.
"""

__all__: list[str] = []
