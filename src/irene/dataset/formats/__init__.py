"""Formats of measured data on disk: the two of 2021, Parquet, and which is which."""
