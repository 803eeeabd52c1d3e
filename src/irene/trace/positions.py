"""How long an input a model can take, and a run that keeps to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from irene.errors import SpecError
from irene.spec import RunSpec

if TYPE_CHECKING:
    from torch import nn

FIELDS = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx")
RELATIVE = frozenset({"t5", "mt5", "umt5", "longt5", "switch_transformers", "xlnet"})
"""Model types whose positions are relative: their config's number is no limit."""


class Reach(NamedTuple):
    """What the length of a run means to a model.

    Attributes:
        limit: Longest sequence its positions reach; None if nothing bounds it.
        reads_tokens: Whether a length means anything to it.
        has_decoder: Whether an encoder and a decoder read lengths of their own.
    """

    limit: int | None
    reads_tokens: bool
    has_decoder: bool

    def notes(self, spec: RunSpec) -> tuple[str, ...]:
        """What a reader should know of the lengths that were given."""
        idle = []
        if spec.given("seq_len") and not self.reads_tokens:
            idle.append("its inputs have a size of their own: seq_len")
        if spec.given("decoder_len") and not self.has_decoder:
            idle.append("it has no decoder beside an encoder: decoder_len")
        return tuple(f"{each} means nothing here" for each in idle)

    def fit(self, spec: RunSpec) -> RunSpec:
        """The run, at most as long as the model's positions reach.

        A length that nobody gave is cut to what there is.

        Raises:
            SpecError: A length that was given goes beyond it.
        """
        if self.limit is None or not self.reads_tokens:
            return spec
        decodes = spec.phase == "decode"
        length = spec.seq_len
        if self.has_decoder and spec.decoder_len:
            length = max(length, spec.decoder_len)
        wanted = (spec.context_len or 0) + (1 if decodes else length)
        if wanted <= self.limit:
            return spec
        if decodes and not (spec.given("context_len") or spec.given("seq_len")):
            return spec.chosen_as(seq_len=self.limit - 1, context_len=self.limit - 1)
        room = self.limit - (spec.context_len or 0)
        is_open = length == spec.seq_len and not spec.given("seq_len")
        if not decodes and is_open and room > 0:
            return spec.chosen_as(seq_len=room)
        raise SpecError(
            f"{spec.model} takes at most {self.limit:,} positions, asked for "
            f"{wanted:,}: choose a shorter sequence (or context)"
        )


def reach_of(model: nn.Module) -> Reach:
    """What lengths mean to a model."""
    config: Any = getattr(model, "config", None)
    main = getattr(model, "main_input_name", "input_ids")
    return Reach(
        _limit(model, config),
        main == "input_ids" or hasattr(config, "max_target_positions"),
        bool(getattr(config, "is_encoder_decoder", False)),
    )


def fit_positions(model: nn.Module, spec: RunSpec) -> RunSpec:
    """The run, at most as long as the model's positions reach; see `Reach.fit`."""
    return reach_of(model).fit(spec)


def _limit(model: nn.Module, config: Any) -> int | None:
    if config is None or config.model_type in RELATIVE:
        return None
    for holder in (config, getattr(config, "text_config", None)):
        for field in FIELDS:
            value = getattr(holder, field, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value - _reserved(model, value)
    return None


def _reserved(model: nn.Module, positions: int) -> int:
    """Positions that are never reached: RoBERTa's start after the padding id."""
    from torch import nn

    for name, module in model.named_modules():
        if (
            isinstance(module, nn.Embedding)
            and "position" in name
            and module.num_embeddings == positions
            and module.padding_idx is not None
        ):
            return module.padding_idx + 1
    return 0
