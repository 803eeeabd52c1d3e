"""The ledger: its rows, views, documents and traces."""

__all__: list[str] = []
