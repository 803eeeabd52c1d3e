"""Where watts and utilisation come from.

- `channel`: `Meter` and `Channel`, the shape of every sensor; meters of sensors that
  are asked one by one, and of slow ones in a thread.
- `finding`: which meters there are, and the best ones here; each joule once.
- `energy_counter`: counters that wrap, fall silent or start again.
- `machine`: what this machine is: its processor, and all of it in words.
- `hwmon`: what drivers show of Grace, Intel and AMD GPUs.
- `metric_names`: what the names of metrics say of unit and device.
- `cpu`: counters of the CPU (`rapl`; `zones`: which of them add up); load and
  memory (`cpu_sensors`, with `cpu_load`), from `kernel_files`.
- `gpu`: `nvml`, with `nvml_queries`; `amd_smi`; `zeus_devices`: others.
- `wall`: `serial_line`: wall meters, with `line_reader`; `http_json`: plugs and boards;
  `prometheus`: exporters; `ipmi`, `battery`.
- `logs`: `power_log`: logs of external meters, with `log_lines` and `log_clock`.
- `estimate`: `cpu_estimate`: the CPU's power where nothing measures it, labelled so.
- `sampling`: `sampler` asks all meters again and again in a thread, `sampler_process`
  in a process of its own; `totals`: the sums that windows are cut from; `sample_file`:
  the file samples are streamed to; `recording`: what is read from it, and replayed.

Nothing is imported here: a sampler in a process of its own must stay small.
"""
