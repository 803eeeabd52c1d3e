"""Exams: cross-validation, evaluation, splits and families."""

__all__: list[str] = []
