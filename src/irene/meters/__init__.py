"""Where watts and utilisation come from.

- `channel`: `Meter` and `Channel`, the shape of every sensor.
- `sampler`: asks all meters again and again in a thread; `sampler_process`,
  `sampling_process`: the same in a process of its own.
- `totals`: the running totals that windows are cut from.
- `sample_file`: the file samples are streamed to; `recording`: what is read from it.
- `known`: which meters there are, and the best ones here.
- `rapl`, `perf`: counters of the CPU (`zones`: which add up; `energy_counter`: wraps and
  silences); `nvml`, `zeus_devices`: of GPUs and SoCs.
- `serial_line`, `power_log`: wall meters; `replay`: samples that were recorded.
- `estimate`: the CPU's power where nothing measures it, labelled so.
- `procfs`: load and memory; `machine`: what this machine is, in words.

Nothing is imported here: a sampler in a process of its own must stay small.
"""

__all__: list[str] = []
