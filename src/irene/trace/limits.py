"""Limits that keep an absurd config or size from taking the machine down.

They are checked before a model is built and before memory is touched. Weights live on
the meta device and cost nothing; what costs is the number of modules and of tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from irene.errors import LimitError, SpecError
from irene.spec import RunSpec

DEEPEST = 20
LAYER_WORDS = ("layers", "n_layer", "blocks", "depth", "depths", "stages")
OVERRIDE = "set IRENE_NO_LIMITS=1 or give --no-limits if you mean it"


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest values that are accepted.

    Attributes:
        config_bytes: Size of a config file.
        config_number: Any whole number in a config.
        layers: Any field that counts layers, blocks or experts.
        modules: Product of the layer and expert counts of a config.
        tokens: Batch size times sequence (and context) length.
    """

    config_bytes: int = 4_000_000
    config_number: int = 20_000_000
    layers: int = 1_000
    modules: int = 200_000
    tokens: int = 100_000_000

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Refuse a config that asks for absurd sizes.

        Raises:
            LimitError: A number is past its limit; the message names it.
        """
        layers = experts = 1
        for name, value in _numbers(config):
            field = name.rpartition(".")[2]
            counts_layers = field.endswith(LAYER_WORDS)
            limit = self.layers if counts_layers else self.config_number
            if abs(value) > limit:
                raise LimitError(
                    f"the config asks for {name}={value:,}, the limit is {limit:,}; "
                    f"{OVERRIDE}"
                )
            if counts_layers:
                layers = max(layers, value)
            if "expert" in field and "size" not in field and "dim" not in field:
                experts = max(experts, value)
        if layers * experts > self.modules:
            raise LimitError(
                f"the config asks for {layers} layers of {experts} experts, "
                f"more than {self.modules:,} modules; {OVERRIDE}"
            )

    def check_spec(self, spec: RunSpec) -> None:
        """Refuse a run of absurd size.

        Raises:
            LimitError: Batch size times length is past the limit.
        """
        lengths = (spec.seq_len, spec.decoder_len or 0, spec.context_len or 0)
        tokens = spec.batch_size * sum(lengths)
        if tokens > self.tokens:
            raise LimitError(
                f"batch size {spec.batch_size:,} times length {sum(lengths):,} is "
                f"{tokens:,} tokens, the limit is {self.tokens:,}; {OVERRIDE}"
            )


def _numbers(values: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, int]]:
    """Every whole number in a config, with its dotted name."""
    if depth > DEEPEST:
        raise LimitError(f"the config is nested more than {DEEPEST} levels deep")
    if isinstance(values, Mapping):
        for key, value in values.items():
            if not str(key).endswith(("token_id", "2id", "2label", "token_ids")):
                yield from _numbers(
                    value, f"{name}.{key}" if name else str(key), depth + 1
                )
    elif isinstance(values, list | tuple):
        yield (f"{name}.layers", len(values))
        for value in values:
            yield from _numbers(value, name, depth + 1)
    elif isinstance(values, int) and not isinstance(values, bool):
        yield (name, values)


DEFAULT_LIMITS = Limits()
HUGE = 1 << 62
NO_LIMITS = Limits(HUGE, HUGE, HUGE, HUGE, HUGE)


_LIFTED: ContextVar[bool] = ContextVar("lifted", default=False)


@contextmanager
def limits_lifted(lifted: bool = True) -> Iterator[None]:
    """Within it nothing is refused for its size."""
    token = _LIFTED.set(lifted)
    try:
        yield
    finally:
        _LIFTED.reset(token)


def limits_from_environment() -> Limits:
    """The default limits; none within `limits_lifted` or with IRENE_NO_LIMITS set."""
    lifted = os.environ.get("IRENE_NO_LIMITS", "") not in ("", "0")
    return NO_LIMITS if lifted or _LIFTED.get() else DEFAULT_LIMITS


def checked_run(spec: RunSpec, limits: Limits | None = None) -> Limits:
    """The limits, after a look at whether the run is one that could be traced.

    Args:
        spec: The run.
        limits: What is refused; by default those of the environment.

    Raises:
        UsageError: It is a serving, or of absurd size.
    """
    if spec.phase == "generate":
        raise SpecError(
            f"phase {spec.phase!r} is not one run of a model that could be traced: "
            "`irene.trace.serving` has the ops of a serving engine"
        )
    spec.refuse_serving("a trace")
    limits = limits or limits_from_environment()
    limits.check_spec(spec)
    return limits
