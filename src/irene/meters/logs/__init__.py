"""Logs that external meters have written."""
