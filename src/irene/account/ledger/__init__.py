"""The ledger: its rows, views, documents and traces.

- `ledger`: `Ledger`, the energy of every op call, and every way to look at it.
- `rows`: what a group of calls used; `grouping`: sums over groups; `scopes`: modules
  as a tree, and as the tree that everything else uses.
- `ledger_documents`: JSON, CSV, Parquet, Perfetto trace; `timeline`: power over
  time.
"""
