"""Exams: cross-validation, evaluation, splits and families."""
