"""Trees as functions of size: found by tracing at some sizes, then known at all.

- `trees`: the one place where the tree of a run is got, from a template or by a trace.
- `template`: `Template`, evaluated without torch; `piece`: one of its structures.
- `keeping`: templates that ship with the catalogue, and those made for a user.
- `making`: a template from traces, proved at further sizes; `fitting`: its polynomials.
- `fewer_layers`: a model with fewer of its equal layers, and its tree with all of them.
"""
