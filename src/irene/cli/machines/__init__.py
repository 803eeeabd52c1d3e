"""Commands that learn, examine and list machines.

- `learn`: this machine; `train`, `train_ops`, `calibrate`: others; `crossvalidate`,
  `evaluate`, `validate`: examine; `hardware`: list, add, remove, choose.
- `learning_options`: what those that learn and examine share; `machine_text`: a machine
  in words.
"""
