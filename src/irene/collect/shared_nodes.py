"""SharedNodes: a node that two runs have in common is measured once.

A journal that the runs of one collection on one machine write into, one after the
other: that of `irene.measure.alone.journal`, except that a line also says of which run
it is. It is kept on the machine that measures, where a run that was killed also finds
its own nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.measure.alone.capture import digest
from irene.measure.alone.journal import Journal, default_folder
from irene.measure.alone.rounds import NodeResult

__all__ = ["SharedNodes", "nodes_path"]


def nodes_path(collection: str, header: Mapping[str, Any]) -> Path:
    """The file of one collection on one machine under one protocol.

    Args:
        collection: Names the collection.
        header: What is measured, where and how.
    """
    same = {name: value for name, value in header.items() if name != "spec"}
    return default_folder().parent / "collect" / f"{collection}-{digest(same)}.jsonl"


class SharedNodes(Journal):
    """The nodes of a collection, as a journal of one of its runs.

    Args:
        path: The file; made with its folder if need be.
        header: What is measured, where and how; the run is no part of the file.
        run: Names the run, in words that a reader understands.

    Attributes:
        used: Nodes of other runs that this one has used: key and name of the run.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], run: str) -> None:
        same = {name: value for name, value in header.items() if name != "spec"}
        super().__init__(path, same)
        self.used: dict[str, str] = {}
        self._run = run
        self._lines = _Lines(self.used, run)
        self.results = self._lines

    def _take(self, fields: Mapping[str, Any]) -> None:
        if isinstance(fields.get("key"), str) and "rounds" in fields:
            self._lines.keep(fields)

    def append(self, result: NodeResult) -> None:
        """Put a finished node on disk.

        Raises:
            IreneError: It cannot be written; what is in the file stays valid.
        """
        self._write({**result.to_dict(), "run": self._run})
        self._lines[result.key] = result


class _Lines(dict[str, NodeResult]):
    """Results that are made out of their lines when somebody asks for them.

    A large sweep has many thousands, of which a run needs a few.
    """

    def __init__(self, used: dict[str, str], run: str) -> None:
        super().__init__()
        self._kept: dict[str, Mapping[str, Any]] = {}
        self._used = used
        self._run = run

    def keep(self, fields: Mapping[str, Any]) -> None:
        self._kept[fields["key"]] = fields

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._make(key) is not None

    def _make(self, key: object) -> NodeResult | None:
        fields = self._kept.pop(str(key), None)
        if fields is None:
            return None
        plain = {name: value for name, value in fields.items() if name != "run"}
        try:
            result = NodeResult.from_dict(plain)
        except (KeyError, TypeError, ValueError):  # damaged: it is measured again
            return None
        if not (result.energy_known or result.problem):
            return None
        if fields.get("run") != self._run:
            self._used[result.key] = str(fields.get("run", "another run"))
        self[result.key] = result
        return result
