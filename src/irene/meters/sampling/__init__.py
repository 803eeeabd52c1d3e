"""Samplers, what they recorded, and running totals."""
