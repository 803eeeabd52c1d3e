"""Formats of measured data on disk: the two of 2021, and our own in Parquet."""
