"""Live accounting of PyTorch programs.

- `session`: `record`, the `with` block that becomes a ledger; `sampling`: its power.
- `script`: programs that know nothing of us.
- `levels`: what is collected, modules alone or every op; `hooks`: who tells it;
  `compiled`: modules inside what `torch.compile` has made; `inductor`: the code of it.
- `steps`: where steps begin and end, and which of them are recorded.
- `ranks`: several processes, each with a file of its own, and one ledger of them all.
"""
