"""Measured nodes matched with our own trace of the same model and size.

Training and prediction then see the same features, and the functional ops that nobody
measured are real work with rates of their own. Models are traced as they were run: runs
of this program as `irene measure` traces them; the runs of 2021 had eager attention,
fp32, an attention mask for encoders, and for decoders with a cache the copies that
keeping it took.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from irene.arrays import Ints
from irene.dataset.table import NodeTable, TreeKey
from irene.errors import UsageError
from irene.predict.machines.serial_machine import SerialWork, serial_work
from irene.predict.machines.specs.work import MIB, STREAMS, Kernel, TreeWork, work_of
from irene.spec import Attention, DType, RunSpec
from irene.tree import ML, ModelTree


@dataclass(frozen=True, slots=True)
class OwnRun:
    """How this program ran the models of a table.

    Attributes:
        dtype: Floating-point type.
        attention: Attention implementation.
        device: `cpu`, `cuda`, …: a CPU runs one op after the other.
    """

    dtype: DType = "fp32"
    attention: Attention = "eager"
    device: str = "cpu"

    @property
    def is_serial(self) -> bool:
        """Whether ops ran one after the other, with nothing that overlaps."""
        return self.device == "cpu"


class Traced(NamedTuple):
    """What a model of a table ran: its tree, and the work of its nodes.

    Attributes:
        tree: Unfolded.
        work: Kernels, bytes and calls.
        serial: Ops, where they ran one after the other.
    """

    tree: ModelTree
    work: TreeWork
    serial: SerialWork | None = None


def trace_own(key: TreeKey, config: str | None, run: OwnRun) -> Traced:
    """Trace what `irene measure` ran.

    Raises:
        UsageError: The model is not known here.
    """
    from irene.trace.tracer import trace

    tree = trace(
        _local(key, config),
        batch_size=key.batch_size,
        seq_len=key.seq_len,
        dtype=run.dtype,
        attention=run.attention,
    )
    return Traced(tree, work_of(tree), serial_work(tree) if run.is_serial else None)


def _local(key: TreeKey, config: str | None) -> str:
    """Catalogue name or file of a model; nothing is asked of the network."""
    from irene.trace.sources import locate

    source = config or key.model
    if locate(source).origin == "Hugging Face hub":
        raise UsageError(f"{key.model} is not in the catalogue")
    return source


def trace_as_in_2021(key: TreeKey, config: str | None) -> Traced:
    """Trace what the profiler of 2021 ran.

    Raises:
        UsageError: The model is not known here.
    """
    import torch
    from transformers.models.auto import modeling_auto

    from irene.trace.inputs import make_inputs
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import build, resolve
    from irene.trace.tracer import trace

    spec = RunSpec(key.model, batch_size=key.batch_size, seq_len=key.seq_len)
    model: Any = build(resolve(_local(key, config), DEFAULT_LIMITS, "AutoModel"), spec)
    inputs: dict[str, Any] = dict(make_inputs(model, spec))
    # Models with masked words read in both directions.
    both_ways = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    is_encoder = model.config.model_type in both_ways
    if is_encoder:
        shape = (key.batch_size, 1, 1, key.seq_len)
        inputs["attention_mask"] = torch.empty(shape, device="meta")
    tree = trace(model, inputs)
    work = work_of(tree)
    keeps_cache = "past_key_values" in inspect.signature(model.forward).parameters
    if keeps_cache and not is_encoder:
        work = _with_cache_copies(tree, work)
    return Traced(tree, work)


def _with_cache_copies(tree: ModelTree, work: TreeWork) -> TreeWork:
    """Keys and values stacked into a cache: each is read and written once more."""
    streams = np.zeros_like(work.stream_mib)
    calls = np.zeros_like(work.calls)
    for node in tree.nodes("module"):
        products = [c for c in node.children if c.op == "matmul"]
        if len(products) != 2:
            continue
        keys, values = products[0].inputs[-1], products[1].inputs[-1]
        moved = 2 * 4 * (np.prod(keys) + np.prod(values)) / MIB
        streams[node.row, STREAMS.index("copy")] += float(moved)
        calls[node.row, 0] += 2
    columns = tree.columns
    return TreeWork(
        work.kernels,
        work.counts,
        work.stream_mib + columns.inclusive(streams),
        work.calls + columns.inclusive(calls),
    )


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class JoinedTree:
    """A traced tree and where the measured nodes are in it.

    Attributes:
        tree: The trace, unfolded.
        work: The work of its nodes.
        nodes: Row in the trace for every measured row; -1 where nothing matches.
        measured_as: Row in the trace of the node that was really run for a measured
            primitive; the profiler reused measurements of equal type, FLOPs and bytes.
        unmatched: Paths of measured rows that the trace does not have.
        serial: The work of its nodes, if ops ran one after the other.
    """

    tree: ModelTree
    work: TreeWork
    nodes: Ints
    measured_as: Ints
    unmatched: tuple[str, ...]
    serial: SerialWork | None = None


@dataclass
class Joiner:
    """Traces models and matches them with measured trees; remembers both.

    Attributes:
        configs: Config files of models that the catalogue does not have, by name.
        unknown: Models without a config, with the reason.
        own: How this program ran the models; None for the data of 2021.
    """

    configs: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    own: OwnRun | None = None
    _traces: dict[TreeKey, Traced] = field(default_factory=dict)

    @property
    def is_serial(self) -> bool:
        """Whether the models ran one op after the other, as on a CPU."""
        return self.own is not None and self.own.is_serial

    def trace_all(self, keys: Iterable[TreeKey]) -> None:
        """Trace models beforehand; those without a config are in `unknown` then."""
        for key in keys:
            self._trace(key)

    def untraced(self, table: NodeTable) -> list[TreeKey]:
        """Which trees of a table have not been traced yet, each once."""
        keys = dict.fromkeys(table.keys)
        return [
            k for k in keys if k not in self._traces and k.model not in self.unknown
        ]

    def take_over(self, other: Joiner) -> None:
        """Remember what another one has traced in the same way."""
        self._traces.update(other._traces)
        self.unknown.update(other.unknown)

    def trees(
        self, table: NodeTable, progress: Progress | None = None
    ) -> Iterator[tuple[int, slice, JoinedTree]]:
        """Match the measured trees whose models have a config.

        Yields:
            Which tree it is, its rows in the table, and what they were matched with.
        """
        for index, (key, rows) in enumerate(table.trees()):
            if progress is not None:
                progress(index, len(table.keys), f"{key.model} {key[1]} × {key[2]}")
            joined = self.join(table, index)
            if joined is not None:
                yield index, rows, joined

    def without_configs(self, table: NodeTable) -> UsageError:
        """Says that nothing of a table could be matched, and why."""
        known = ", ".join(f"{m} ({why})" for m, why in self.unknown.items())
        return UsageError(f"no model of {table.name} has a config: {known}")

    def join(self, table: NodeTable, index: int) -> JoinedTree | None:
        """Match one measured tree; None if its model has no config."""
        key = table.keys[index]
        traced = self._trace(key)
        if traced is None:
            return None
        tree, work, serial = traced
        rows = range(int(table.starts[index]), int(table.starts[index + 1]))
        nodes, unmatched = _match(table, rows, tree)
        really_run = nodes
        if self.own is None:
            work = _as_measured(table, rows, nodes, tree, work)
            really_run = _really_run(table, rows, nodes)
        return JoinedTree(tree, work, nodes, really_run, tuple(unmatched), serial)

    def _trace(self, key: TreeKey) -> Traced | None:
        if key.model in self.unknown:
            return None
        if key not in self._traces:
            config = self.configs.get(key.model)
            try:
                if self.own is None:
                    self._traces[key] = trace_as_in_2021(key, config)
                else:
                    self._traces[key] = trace_own(key, config, self.own)
            except UsageError as error:
                self.unknown[key.model] = str(error)
        return self._traces.get(key)


def _match(
    table: NodeTable, rows: Iterable[int], tree: ModelTree
) -> tuple[Ints, list[str]]:
    """Row of the trace for every measured row: by path, functions by their order."""
    by_path: dict[str, int] = {}
    functions: dict[tuple[str, str], list[int]] = {}
    for node in tree.nodes():
        if node.kind == "math":
            continue
        by_path.setdefault(node.path, node.row)
        if node.kind == "ml" and node.parent is not None:
            functions.setdefault((node.parent.path, node.op.lower()), []).append(
                node.row
            )
    used: Counter[tuple[str, str]] = Counter()
    found, unmatched = [], []
    for row in rows:
        scope, _, name = table.path[row].rpartition(".")
        function = (scope, name.lower())
        if table.path[row] in by_path:
            found.append(by_path[table.path[row]])
        elif used[function] < len(functions.get(function, ())):
            found.append(functions[function][used[function]])
            used[function] += 1
        else:
            found.append(-1)
            unmatched.append(table.path[row])
    return np.array(found, dtype=np.int64), unmatched


def _really_run(table: NodeTable, rows: range, nodes: Ints) -> Ints:
    """Of primitives of equal type, FLOPs and bytes, the first to run was measured."""
    groups: dict[tuple[str, float, float], int] = {}
    order = sorted(range(len(nodes)), key=lambda i: nodes[i])
    measured = nodes.copy()
    for i in order:
        row = rows[i]
        if table.kind[row] != ML or nodes[i] < 0:
            continue
        flops, moved = table.features["flops"][row], table.features["mem_bytes"][row]
        first = groups.setdefault((table.op[row], flops, moved), int(nodes[i]))
        measured[i] = first
    return measured


def _as_measured(
    table: NodeTable, rows: range, nodes: Ints, tree: ModelTree, work: TreeWork
) -> TreeWork:
    """Correct lookups that the measured software did on more rows than ours.

    The data says how many MiB a lookup returned; where our trace looks up one row per
    position and the measured software one per token, theirs is what was run.
    """
    kernels = list(work.kernels)
    counts = work.counts
    for i, row in enumerate(rows):
        if table.op[row] != "Embedding" or nodes[i] < 0:
            continue
        node = int(nodes[i])
        traced = float(
            np.prod(tree.signatures[tree.columns.signature[node]].outputs[0])
        )
        measured = table.features["mem_bytes"][row] * MIB / 4
        if not measured > 1.5 * traced:
            continue
        width = tree.signatures[tree.columns.signature[node]].outputs[0][-1]
        lookups = table.keys[int(table.tree[row])]
        kernel = Kernel("embedding", (lookups.batch_size * lookups.seq_len, int(width)))
        counts = counts.copy() if counts is work.counts else counts
        kernels, counts = _swap(kernels, counts, tree, node, kernel)
    return TreeWork(tuple(kernels), counts, work.stream_mib, work.calls)


def _swap(
    kernels: list[Kernel],
    counts: npt.NDArray[np.float64],
    tree: ModelTree,
    node: int,
    kernel: Kernel,
) -> tuple[list[Kernel], npt.NDArray[np.float64]]:
    """Replace the kernel of a primitive, in it and in everything above it."""
    if kernel not in kernels:
        kernels = [*kernels, kernel]
        counts = np.hstack([counts, np.zeros((len(counts), 1))])
    old = int(np.argmax(counts[node]))
    new = kernels.index(kernel)
    above = node
    while above >= 0:
        counts[above, old] -= 1
        counts[above, new] += 1
        above = int(tree.parents[above])
    return kernels, counts
