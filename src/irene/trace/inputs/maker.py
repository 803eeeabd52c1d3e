"""InputMaker: tensors for one model and run, with sizes from its config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from irene.spec import RunSpec
from irene.trace.models import TORCH_DTYPES
from irene.trace.values import LARGEST, give_value, know_value

PARTS = {
    "text": ("text", "decoder", "language", "encoder"),
    "vision": ("vision", "visual", "image", "vit", "backbone"),
    "audio": ("audio", "speech", "encoder"),
}
"""Words in the names of inner configs, by what the part reads."""


class InputMaker:
    """Makes tensors for one model and run.

    Attributes:
        config: The model's config.
        accepts: Names of the arguments of its forward.
        batch: Sequences, images or clips.
        length: Tokens per sequence.
    """

    def __init__(self, model: nn.Module, spec: RunSpec, device: str) -> None:
        self.model = model
        self.config: Any = getattr(model, "config", None)
        self.spec = spec
        self.device = device
        self.dtype = TORCH_DTYPES[spec.dtype]
        self.batch = spec.batch_size
        self.length = spec.seq_len
        self.accepts = dict(inspect.signature(model.forward).parameters)

    @property
    def model_type(self) -> str:
        """The model's type in transformers."""
        return str(getattr(self.config, "model_type", ""))

    @property
    def decoder_length(self) -> int:
        """Tokens of the decoder."""
        return self.spec.decoder_len or self.spec.seq_len

    def numbers(self, *shape: int) -> torch.Tensor:
        """A tensor of the run's dtype."""
        if self.device == "meta":
            return torch.empty(shape, dtype=self.dtype, device="meta")
        return torch.randn(shape, dtype=self.dtype, device=self.device)

    def floats(self, *shape: int) -> torch.Tensor:
        """Numbers of the run's dtype, of this shape for each sequence."""
        return self.numbers(self.batch, *shape)

    def ones(self, *shape: int) -> torch.Tensor:
        """Ones for each sequence, known also on the meta device."""
        if self.device == "meta":
            one = torch.ones((), dtype=self.dtype)
            return know_value(self.floats(*shape), one.expand(self.batch, *shape))
        return torch.ones((self.batch, *shape), dtype=self.dtype, device=self.device)

    def whole(self, tensor: Any) -> torch.Tensor:
        """Whole numbers, brought to the device with their content."""
        known: torch.Tensor = torch.as_tensor(tensor, device="cpu")
        if self.device == "meta":
            return give_value(known)
        return known.to(self.device)

    def mask(self, *shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
        """A mask of this shape for each sequence, which hides nothing."""
        return self.whole(torch.ones((self.batch, *shape), dtype=dtype))

    def tokens(
        self,
        length: int | None = None,
        vocab: int | None = None,
        rows: int | None = None,
    ) -> torch.Tensor:
        """Token ids, none of which is special.

        What is not given is of the run: its length, the model's vocabulary, a row for
        each sequence.
        """
        length = self.length if length is None else length
        vocab = self.vocab if vocab is None else vocab
        rows = self.batch if rows is None else rows
        if self.device == "meta" and rows * length > LARGEST:
            return torch.empty(rows, length, dtype=torch.int64, device="meta")
        ids = torch.arange(rows * length).remainder(max(vocab // 2, 1)) + vocab // 4
        return self.whole(ids.remainder(vocab).reshape(rows, length))

    def with_tokens(self, **inputs: Any) -> dict[str, Any]:
        """Inputs beside the token ids of the run."""
        return {"input_ids": self.tokens(), **inputs}

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        found = self.find(("vocab_size", "n_token", "text_vocab_size"), "text")
        return found if found > 0 else 100

    def find(self, names: tuple[str, ...], part: str = "", default: int = 0) -> int:
        """The first of some fields that is a whole number.

        Args:
            names: Fields, the best first.
            part: `text`, `vision` or `audio`: inner configs that are looked at.
            default: What is taken where there is none.
        """
        for config in self.configs(part):
            value = _first_int(config, names)
            if value is not None:
                return value
        return default

    def configs(self, part: str) -> Iterator[Any]:
        """The config of a part of the model, then the model's own."""
        words = PARTS.get(part, ())
        for name, inner in _inner_configs(self.config):
            if any(word in name for word in words):
                yield inner
        yield self.config

    def first_width(self, words: tuple[str, ...]) -> int:
        """Numbers that the first layer with such a name reads at a time, 0 if none."""
        for name, module in self.model.named_modules():
            weight = getattr(module, "weight", None)
            if isinstance(
                module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
            ) and any(word in name for word in words):
                return prod(weight.shape[1:]) if weight is not None else 0
        return 0


Make = Callable[[InputMaker], dict[str, Any]]
"""Makes inputs by name."""


def _first_int(config: Any, names: tuple[str, ...]) -> int | None:
    """The first of some fields of a config that is a whole number."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, list | tuple) and value and isinstance(value[0], int):
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _inner_configs(config: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    for name, value in vars(config).items() if config is not None else ():
        if isinstance(value, PretrainedConfig):
            yield name, value
            if depth:
                yield from _inner_configs(value, depth - 1)
