"""Pages that load nothing.

- `shell`: the shell of all pages and the templates.
- `tree_page`, `ledger_page`: a tree, a ledger.
"""
