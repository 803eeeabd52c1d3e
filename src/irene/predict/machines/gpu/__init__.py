"""Data-centre GPUs: time of single kernels from their shapes, energy of servings.

- `kernel_ops`: what a GPU is asked to run, one by one and as columns of numbers;
  `kernel_work`: their FLOPs, bytes and least time, and what the residual sees.
- `datasheet`: what the maker says; `time_model`: small trees for what it does not say;
  `kernel_models`: all models of a GPU.
- `collectives`: all-reduces between GPUs, three numbers for each number of them.
- `gpu_device`: a GPU that answers for ops, and its file.
- `kernel_tables`: measured kernels; `kernel_fitting`: models of them;
  `kernel_training`: from tables to devices, with exams.
- `gpu_machine`: a GPU that predicts trees; `node_ops` reads ops off nodes; `wall`: from
  boards to the wall, and power limits.
- `passes`: how plain passes differ from the sum of their kernels; learned from measured
  ones by `benchmarks/passes.py`.
- `doubts`: why energies are uncertain; `run_likeness`: what of it two runs share.
- `engines`: serving engines, and what their hosts add to the time of steps.
- `serving_calibration`: how servings differ from the sum of their kernels; it is
  learned from measured servings by `benchmarks/serving_calibration.py`.
"""
