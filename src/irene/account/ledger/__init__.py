"""The ledger: its rows, views, documents and traces."""
