"""Specs: energy from shapes alone; nothing is run.

- `work`: what a tree makes a machine do: kernels, bytes, calls.
- `kernels`: energy of single kernels; `regression`: how rates are fitted.
- `composition`: from kernels to modules.
- `specs_model`: `SpecsModel`, a machine; `specs_method`: the same as a method of
  `METHODS`, with what stands in for models without a config.
"""
