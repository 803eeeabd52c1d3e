"""Callbacks: accounting inside the training loops of other libraries.

- `hugging_face`: for `transformers.Trainer`.
- `lightning`: for `lightning.pytorch.Trainer`.
- `keras_callback`: for `fit`, `evaluate` and `predict` of Keras on TensorFlow.
- `training`: what the first two have in common.
- `trackers`: energy in Weights & Biases, MLflow, Trackio, TensorBoard and CSV files.
"""
