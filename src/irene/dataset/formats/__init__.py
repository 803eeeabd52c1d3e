"""Formats of measured data on disk: the three of 2021, Parquet, and which is which."""
