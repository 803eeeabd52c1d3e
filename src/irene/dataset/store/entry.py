"""Entry: one measured or failed run, as the manifest of a store tells of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from irene.dataset.store.origin import Origin
from irene.errors import FormatError, SpecError
from irene.hardware import Hardware
from irene.spec import RunSpec

__all__ = ["Entry", "State", "entry_id"]

State = Literal["measured", "failed"]
ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in a store.

    Attributes:
        id: Names the entry by its content, wherever it is copied to.
        spec: What was run.
        hardware: What the machine is called in this store.
        origin: Where it comes from, as recorded there.
        state: `measured` or `failed`.
        nodes: Nodes of its tree; 0 if it failed.
        added_ns: When it came into this store, ns since 1970 by the clock of the host
            that wrote it; for people, not for order.
        file: Name of the segment that holds its tree, "" if it failed.
        reason: Why it failed, "" if it did not.
    """

    id: str
    spec: RunSpec
    hardware: str
    origin: Origin
    state: State
    nodes: int
    added_ns: int
    file: str
    reason: str = ""

    @property
    def machine(self) -> Hardware:
        """The hardware under the name that it has in this store."""
        return replace(self.origin.hardware, name=self.hardware)

    @property
    def run(self) -> tuple[str, str, str]:
        """Digest of the spec, name of the hardware, software."""
        return _digest(self.spec), self.hardware, self.origin.software_name

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        told = {
            "id": self.id,
            "state": self.state,
            "spec": self.spec.to_dict(),
            "hardware": self.hardware,
            "origin": self.origin.to_dict(),
            "nodes": self.nodes,
            "added_ns": self.added_ns,
            "segment": self.file,
        }
        return {**told, "reason": self.reason} if self.reason else told

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Entry:
        """Read what `to_dict` wrote; other fields are passed over.

        Raises:
            FormatError: It is something else, or of a newer version.
        """
        try:
            return cls(
                values["id"],
                RunSpec.from_dict(values["spec"]),
                values["hardware"],
                Origin.from_dict(values["origin"]),
                values["state"],
                values["nodes"],
                values["added_ns"],
                values["segment"],
                values.get("reason", ""),
            )
        except (KeyError, TypeError, SpecError) as error:
            raise FormatError(f"not an entry of ours: {error}") from error


def entry_id(origin: Origin, content: str) -> str:
    """The name of what was measured: of its content and where it comes from.

    Args:
        origin: Where it comes from.
        content: All of it, as text.
    """
    told = json.dumps(origin.to_dict(), sort_keys=True)
    return hashlib.sha256(f"{told}\n{content}".encode()).hexdigest()[:ID_DIGITS]


@lru_cache(maxsize=1 << 16)
def _digest(spec: RunSpec) -> str:
    return spec.digest
