"""Template: the tree of a model as a function of its sizes; needs no torch.

For one config, attention, dtype and phase the structure of a tree is fixed. Where it
changes with the size there are several pieces, each with its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from irene.errors import (
    ConfigError,
    FormatError,
    NoAttentionError,
    SpecError,
    TraceError,
)
from irene.spec import RunSpec
from irene.trace.positions import Reach
from irene.trace.templates.piece import Piece, Sizes
from irene.tree import ModelTree

AXES = {"b": "batch_size", "s": "seq_len", "d": "decoder_len", "c": "context_len"}
"""Sizes of a run by their letters."""
MOST_TOKENS = 1 << 19
"""Tokens up to which all inputs are known by content while they are traced."""
REFUSALS = {each.__name__: each for each in (SpecError, ConfigError, NoAttentionError)}


def in_dtype(tree: ModelTree, old: str, new: str) -> ModelTree:
    """A tree in which one dtype goes by the name of another."""
    names = {old: new}
    signatures = tuple(
        each._replace(dtype=names.get(each.dtype, each.dtype))
        for each in tree.signatures
    )
    return tree._derive(tree.columns, signatures=signatures)


@dataclass(frozen=True, slots=True)
class Template:
    """The trees of one model, attention, dtype and phase, at every size.

    Attributes:
        config_digest: Of the config that was traced, as runs carry it.
        model_class: Class that was built.
        attention: That of the trees: another than asked for where there is none such.
        reach: How long an input may be.
        axes: Letters of the sizes that count.
        pieces: One per structure; no two share a size.
        refusal: Class, message and path of the error that every run ends with.
    """

    config_digest: str
    model_class: str
    attention: str
    reach: Reach
    axes: str
    pieces: tuple[Piece, ...]
    refusal: tuple[str, str, str] | None = None

    @classmethod
    def of_refusal(cls, refusal: Sequence[str]) -> Template:
        """Of a run that no size can do: its error, and with which attention."""
        kind, message, path, attention = refusal
        any_length = Reach(None, True, False)
        return cls("", "", attention, any_length, "b", (), (kind, message, path))

    def check(self) -> None:
        """Refuse what no size of it can do.

        Raises:
            UsageError: As a trace would.
        """
        if self.refusal is None:
            return
        kind, message, path = self.refusal
        if kind == "TraceError":
            raise TraceError(message, path)
        raise REFUSALS[kind](message)

    def piece(self, sizes: Sizes) -> Piece | None:
        """The piece of a size; None where only a trace can tell."""
        lengths = sum(n for axis, n in sizes.items() if axis != "b")
        if sizes["b"] * max(lengths, 1) > MOST_TOKENS:
            return None
        return next((piece for piece in self.pieces if piece.holds(sizes)), None)

    def in_dtype(self, old: str, new: str) -> Template:
        """The same trees, with one dtype by the name of another."""
        pieces = (
            Piece(p.where, p.basis, p.polynomials, in_dtype(p.skeleton, old, new))
            for p in self.pieces
        )
        return replace(self, pieces=tuple(pieces))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "config_digest": self.config_digest,
            "class": self.model_class,
            "attention": self.attention,
            "reach": list(self.reach),
            "axes": self.axes,
            "pieces": [piece.to_dict() for piece in self.pieces],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Template:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is not a template, or damaged.
        """
        try:
            axes = fields["axes"]
            return cls(
                fields["config_digest"],
                fields["class"],
                fields["attention"],
                Reach(*fields["reach"]),
                axes,
                tuple(Piece.from_dict(piece, axes) for piece in fields["pieces"]),
            )
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise FormatError(f"not a template: {error!r}") from error


def sizes_of(spec: RunSpec, axes: str) -> dict[str, int]:
    """The sizes of a run that count, by letter."""
    values = {
        "b": spec.batch_size,
        "s": spec.seq_len,
        "d": spec.decoder_len or spec.seq_len,
        "c": spec.context_len or 0,
    }
    return {axis: values[axis] for axis in axes}
