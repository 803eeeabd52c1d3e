"""Exams: what is held out, and how far predictions are off.

- `splits`: trees of a model, of a family, or of a size.
- `crossvalidation`: the same for every method; `evaluation`: a saved predictor.
"""
