"""What a collector knows of its work: how to ask for it, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Protocol

from irene.dataset.store import Origin
from irene.errors import FormatError
from irene.measure.protocol import MeasureProtocol
from irene.spec import RunSpec
from irene.tree import ModelTree

__all__ = ["SCHEMA", "Measured", "PointWork", "label_of"]

SCHEMA = "irene.measured-run/1"


class PointWork(Protocol):
    """What is done with every run of a sweep, as a collector sees it.

    Attributes:
        call: Import path of the function that does it; see `irene.work.task.Task`. It
            returns the bytes of a `Measured`.
    """

    @property
    def call(self) -> str:
        """Import path of the function that does it."""

    def resolve(self, spec: RunSpec) -> RunSpec:
        """The same run with the hash of its config.

        Raises:
            IreneError: There is no such model.
        """

    def guess_s(
        self, specs: Sequence[RunSpec], protocol: MeasureProtocol, device: str
    ) -> dict[str, float]:
        """About how long each takes, s, by its digest; those that can be guessed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The document that a task returns.

    Attributes:
        tree: The measured tree.
        origin: Where it comes from.
    """

    tree: ModelTree
    origin: Origin

    def to_bytes(self) -> bytes:
        """JSON."""
        tree = json.loads(self.tree.to_json())
        document = {"schema": SCHEMA, "origin": self.origin.to_dict(), "tree": tree}
        return json.dumps(document, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Measured:
        """Read what `to_bytes` wrote.

        Raises:
            FormatError: It is something else.
        """
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise FormatError(f"not {SCHEMA}: {document['schema']!r}")
            tree = ModelTree.from_json(json.dumps(document["tree"]))
            return cls(tree, Origin.from_dict(document["origin"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"not a measured run: {error}") from error


def label_of(spec: RunSpec) -> str:
    """A run in a few words: `gpt2 8×64`, and what of it is not as usual."""
    usual = {f.name: f.default for f in fields(RunSpec) if f.default is not MISSING}
    known = {"model", "batch_size", "seq_len", "config_digest"}
    rest = [
        str(value) if isinstance(value, str) else f"{name}={value}"
        for name, value in spec.to_dict().items()
        if name not in known and value != usual.get(name)
    ]
    return " ".join([f"{spec.model} {spec.batch_size}×{spec.seq_len}", *rest])
