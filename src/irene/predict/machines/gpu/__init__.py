"""Data-centre GPUs: time, power and energy of single kernels, from their shapes.

- `op`: what a GPU is asked to run.
- `shapes`: many ops as columns of numbers; `roofline`: their FLOPs, bytes and least
  time; `features`: what the residual sees.
- `datasheet`: what the maker says; `boosted`: small trees for what it does not say;
  `power`: watts from utilisation.
- `device`: a GPU that answers for ops; `device_file`: how it is kept;
  `known_devices`: those that ship and those a user added.
- `tables`, `readings`: measured kernels, and which of their powers can be trusted;
  `exam`: errors with whole groups of shapes held out; `training`: from tables to
  devices.
- `machine`: a GPU that predicts trees; `serving_ops` and `traced_ops` read ops off
  nodes, `generation` makes the trees, `machine_notes` says what to doubt.
- `calibration`: how servings differ from the sum of their kernels; `calibration_fit`
  and `calibration_exam` learn that from `serving_data`.
"""

from irene.predict.machines.gpu.device import GpuDevice, OpCost, OpCosts, find_device

__all__ = ["GpuDevice", "OpCost", "OpCosts", "find_device"]
