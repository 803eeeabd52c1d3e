"""Where watts and utilisation come from.

- `channel`: `Meter` and `Channel`, the shape of every sensor.
- `sampler`: asks all meters again and again in a thread; `sampler_process`,
  `sampling_process`: the same in a process of its own.
- `totals`: the running totals that windows are cut from.
- `sample_file`: the file samples are streamed to; `recording`: what is read from it.
- `known`: which meters there are, and the best ones here.
- `rapl`, `perf`: counters of the CPU; `zones`: which of them add up;
  `energy_counter`: wraps and silences.
- `nvml`, `zeus_devices`: GPUs and SoCs, with `nvml_library`, `nvml_queries`,
  `cuda_visible` and `growing_counter`.
- `serial_line`: wall meters on a line, with `serial_formats`, `line_reader` and
  `line_integral`; `power_log`: their logs, with `log_lines`, `log_columns` and
  `log_clock`; `replay`: samples that were recorded.
- `estimate`: the CPU's power where nothing measures it, labelled so, with
  `estimate_model`, `processor` and `processor_table`.
- `procfs`: load and memory, with `cpu_load`, `process_load` and `cpu_sensors`.
- `count_once`: each joule once; `machine`: what this machine is, in words.

Nothing is imported here: a sampler in a process of its own must stay small.
"""

__all__: list[str] = []
