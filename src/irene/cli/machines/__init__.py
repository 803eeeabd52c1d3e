"""Commands that learn, examine and list machines.

- `train`, `train_ops`, `calibrate`: learn; `crossvalidate`, `evaluate`, `validate`:
  examine; `hardware`: list, add, remove.
- `learning_options`: what those that learn and examine share; `machine_text`: a machine
  in words.
"""

__all__: list[str] = []
