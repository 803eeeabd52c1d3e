"""Callbacks: accounting inside the training loops of other libraries.

- `hugging_face`: for `transformers.Trainer`.
- `lightning`: for `lightning.pytorch.Trainer`.
- `training`: what they have in common.
"""

__all__: list[str] = []
