"""Measured kernels: latency by shape, from a folder of Parquet tables.

One folder per GPU (`h200/gemm.parquet`, `h200/moe.parquet`, …) in the columns of
aiconfigurator's collectors. Some have powers too, most of them read before the GPU's
power rose: they are not used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats, Ints
from irene.errors import FormatError, UsageError
from irene.predict.machines.gpu.kernel_ops import COLUMNS, OpColumns, skew_of
from irene.tables import pyarrow

DTYPES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "fp4",
    "w4a16_mxfp4": "mxfp4",
    "int4_wo": "int4",
}
"""Their names of dtypes and ours; rows of others are left out."""
FEWEST_ROWS = 500
"""Tables with fewer rows teach nothing."""
MAKES = ("trtllm", "cutlass", "marlin", "triton")
"""Makes of kernels of experts, by a word in their names."""

_HEADS = {
    "heads": "num_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "window": "window_size",
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a kind of op is in a table: dtype, our columns, and groups of shapes.

    Files begin with the name of the kind, or with another.
    """

    dtype: str
    columns: Mapping[str, str]
    group: tuple[str, ...]
    file: str = ""


LAYOUTS: Mapping[str, _Layout] = {
    "gemm": _Layout("gemm_dtype", {"m": "m", "n": "n", "k": "k"}, ("n", "k")),
    "context_attention": _Layout(
        "kv_cache_dtype",
        {"batch": "batch_size", "new": "isl", "past": "step", **_HEADS},
        tuple(_HEADS),
    ),
    "generation_attention": _Layout(
        "kv_cache_dtype",
        {"batch": "batch_size", "context": "step", **_HEADS},
        tuple(_HEADS),
    ),
    "moe": _Layout(
        "moe_dtype",
        {
            "tokens": "num_tokens", "hidden": "hidden_size", "inter": "inter_size",
            "topk": "topk", "experts": "num_experts",
            "tensor_parallel": "moe_tp_size", "expert_parallel": "moe_ep_size",
        },
        ("hidden", "inter", "topk", "experts"),
    ),
    "latent_attention": _Layout(
        "kv_cache_dtype",
        {"batch": "batch_size", "context": "step", "heads": "num_heads"},
        ("heads",),
        "mla_generation_module",
    ),
    "latent_prompt": _Layout(
        "mla_dtype",
        {
            "batch": "batch_size", "new": "isl", "past": "step",
            "heads": "num_heads", "kv_heads": "num_heads",
        },
        ("heads",),
        "mla_context_module",
    ),
}  # fmt: skip
DECODE = "generation_attention"
PROMPT = "context_attention"
LATENT: Mapping[str, Mapping[str, float]] = {
    "latent_attention": {"rank": 512.0, "rope": 64.0},
    "latent_prompt": {"head_dim": 160.0, "window": 0.0},
}
"""Sizes of DeepSeek V3, the only model whose latent attention was measured: keys of a
prompt are 192 wide, values 128."""
PROJECTED: Mapping[str, tuple[str, ...]] = {
    "latent_attention": ("kv_cache_dtype", "gemm_type", "num_heads", "batch_size"),
    "latent_prompt": ("gemm_type", "num_heads", "tokens"),
}
"""Latent attention was measured with its projections: what those depend on."""
UNFOLDED = "FLASH_ATTN"
"""The kernel of prompts whose keys and values are unfolded; others take a prompt as
many tokens that decode."""
ALIKE_WIDTH = 128.0
LONGEST_ALIKE = 2048.0
"""Prompts of up to so many tokens take what usual attention of this width does, by
their own."""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Measured kernels of one kind and dtype on one GPU.

    Attributes:
        ops: Their shapes.
        time_s: Latencies, s.
        groups: Rows of one number have the shapes that are held out together.
        group_names: A name for each group.
        source: File, its SHA-256, versions and kernels.
    """

    ops: OpColumns
    time_s: Floats
    groups: Ints
    group_names: tuple[str, ...]
    source: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.time_s)

    def at(self, rows: npt.NDArray[Any]) -> KernelTable:
        """Some rows of it, given as numbers or as a mask."""
        of = self.ops.at(rows), self.time_s[rows], self.groups[rows]
        return KernelTable(*of, self.group_names, self.source)

    @property
    def make(self) -> str:
        """The make of its kernels, "" if of several or of none that we know."""
        makes = {_make(name) for name in self.source["kernels"]}
        return makes.pop() if len(makes) == 1 else ""


def gpu_folders(data: str | Path) -> dict[str, Path]:
    """Folders with tables by name of the GPU.

    Raises:
        UsageError: There is no such folder, or none of its folders has a table.
    """
    root = Path(data)
    if (root / "gpu-ops").is_dir():
        root /= "gpu-ops"
    found = {
        folder.name: folder
        for folder in sorted(root.iterdir() if root.is_dir() else ())
        if folder.is_dir() and (folder / "gemm.parquet").is_file()
    }
    if not found:
        raise UsageError(
            f"no tables of kernels in {data}: it should hold folders such as "
            "h200 with gemm.parquet"
        )
    return found


def read_tables(folder: Path) -> list[KernelTable]:
    """All tables of one GPU, by kind and dtype.

    A kind may have several files (`moe.parquet`, `moe_latency_0.24.parquet`): a dtype
    is read from the first that has enough rows of it.
    """
    tables: dict[str, KernelTable] = {}
    for kind in LAYOUTS:
        files = folder.glob(f"{LAYOUTS[kind].file or kind}*.parquet")
        for file in sorted(files, key=lambda f: len(f.name)):
            for table in _read_file(file, kind, tables):
                tables.setdefault(table.ops.key, table)
    return list(tables.values())


def _read_file(
    path: Path, kind: str, others: Mapping[str, KernelTable]
) -> list[KernelTable]:
    arrow, parquet = pyarrow("tables of kernels need pyarrow", "ops")
    layout = LAYOUTS[kind]
    try:
        read = parquet.read_table(path)
        names = read.column(layout.dtype).to_numpy()
        columns = {name: read.column(name).to_numpy() for name in read.column_names}
        values = _values(kind, layout, columns)
        if kind in PROJECTED:
            columns["latency"] = _without_projections(kind, columns, others)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (KeyError, arrow.ArrowException) as error:
        raise FormatError(f"{path}: not a table of {kind}: {error}") from error
    found = []
    for theirs, ours in DTYPES.items():
        rows = np.flatnonzero((names == theirs) & (columns["latency"] > 0))
        if kind == "moe" and len(rows):
            rows = _of_one_make(rows, columns, [values[n] for n in layout.group])
        if len(rows) >= FEWEST_ROWS:
            source = {
                "file": f"{path.parent.name}/{path.name}",
                "sha256": digest,
                "rows": len(rows),
                "framework": ", ".join(_words(columns["framework"][rows])),
                "device": ", ".join(_words(columns["device"][rows])),
                "versions": _words(columns["version"][rows]),
                "kernels": _words(columns["kernel_source"][rows]),
            }
            found.append(_table(kind, ours, values, columns, rows, source))
    return found


def _of_one_make(
    rows: npt.NDArray[np.intp], columns: Mapping[str, Any], layout: Sequence[Floats]
) -> npt.NDArray[np.intp]:
    """Rows of layouts that ran on the make of kernels that most layouts ran on.

    An engine takes another for layouts and activations that its first does not know:
    one table would hold two kernels that nothing in a shape tells apart. Where every
    layout ran on several, what tells them apart is in the shape.
    """
    makes = np.array([_make(str(name)) for name in columns["kernel_source"][rows]])
    groups, _ = _groups([column[rows] for column in layout])
    ran = {make: set(groups[makes == make].tolist()) for make in sorted(set(makes))}
    most = max(ran, key=lambda make: len(ran[make]))
    return rows[np.isin(groups, list(ran[most]))]


def _make(kernel: str) -> str:
    return next((make for make in MAKES if make in kernel), "")


def _words(values: Any) -> list[str]:
    return sorted({str(value) for value in values})


def _values(
    kind: str, layout: _Layout, columns: Mapping[str, Any]
) -> dict[str, Floats]:
    # Older tables have no windows.
    nothing = np.zeros(len(columns[layout.dtype]))
    optional = {"window_size": nothing}
    values = {
        ours: np.asarray({**optional, **columns}[theirs], dtype=np.float64)
        for ours, theirs in layout.columns.items()
    }
    values |= {name: nothing + size for name, size in LATENT.get(kind, {}).items()}
    if kind in (DECODE, "latent_attention"):
        # The new token joins those in the cache.
        values["context"] = values["context"] + 1.0
    if kind == "moe":
        values["gated"] = np.ones(len(values["tokens"]))
        values["skew"] = np.array([skew_of(str(d)) for d in columns["distribution"]])
    return {name: values[name] for name in COLUMNS[kind]}


def _without_projections(
    kind: str, columns: dict[str, Any], others: Mapping[str, KernelTable]
) -> Floats:
    """Latencies of latent attention alone, ms; NaN where nothing tells them.

    Of modules with the same projections one has the least attention: the least cache,
    or the shortest time. What others take beyond it is attention's, and what it has
    itself is taken as known.
    """
    latency = np.array(columns["latency"], dtype=np.float64)
    known, size = np.full(len(latency), _least_decode_ms(others)), columns["step"]
    if kind == "latent_prompt":
        columns["tokens"] = columns["batch_size"] * columns["isl"]
        latency[columns["kernel_source"] != UNFOLDED] = np.nan
        known, size = _alike_ms(columns, others), latency
    keys = list(zip(*(columns[n].tolist() for n in PROJECTED[kind]), strict=True))
    least: dict[tuple[Any, ...], int] = {}
    for row in np.argsort(size, kind="stable").tolist():
        least.setdefault(keys[row], row)
    rows = [least[key] for key in keys]
    alone: Floats = np.maximum(latency - latency[rows], 0.0) + known[rows]
    return alone


def _least_decode_ms(tables: Mapping[str, KernelTable]) -> float:
    """The least time of any decode attention, ms."""
    decode = [each for each in tables.values() if each.ops.kind == DECODE]
    return min((1e3 * float(each.time_s.min()) for each in decode), default=0.0)


def _alike_ms(columns: Mapping[str, Any], tables: Mapping[str, KernelTable]) -> Floats:
    """Times of usual attention of as many short prompts and heads, ms; NaN: unknown."""
    known: dict[tuple[float, float], float] = {}
    if f"{PROMPT}/bf16" in tables:
        usual = tables[f"{PROMPT}/bf16"]
        of = usual.ops.columns
        is_alike = (of["heads"] == of["kv_heads"]) & (of["head_dim"] == ALIKE_WIDTH)
        is_alike &= (of["past"] == 0) & (of["window"] <= 0)
        is_alike &= of["new"] <= LONGEST_ALIKE
        times_ms = (
            1e3 * usual.time_s * LATENT["latent_prompt"]["head_dim"] / ALIKE_WIDTH
        )
        keys = zip(
            (of["batch"] * of["heads"])[is_alike], of["new"][is_alike], strict=True
        )
        known = dict(zip(keys, times_ms[is_alike], strict=True))
    asked = zip(
        columns["batch_size"] * columns["num_heads"], columns["isl"], strict=True
    )
    return np.array([known.get(key, np.nan) for key in asked])


def _table(
    kind: str,
    dtype: str,
    values: Mapping[str, Floats],
    columns: Mapping[str, Any],
    rows: npt.NDArray[np.intp],
    source: Mapping[str, Any],
) -> KernelTable:
    mine = {name: column[rows] for name, column in values.items()}
    ops = OpColumns(kind, dtype, mine, np.arange(len(rows), dtype=np.intp))
    groups, names = _groups([mine[name] for name in LAYOUTS[kind].group])
    return KernelTable(
        ops,
        np.asarray(columns["latency"], dtype=np.float64)[rows] * 1e-3,
        groups,
        names,
        source,
    )


def _groups(
    columns: Sequence[Floats],
) -> tuple[Ints, tuple[str, ...]]:
    distinct, which = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    names = tuple(" ".join(f"{value:g}" for value in row) for row in distinct)
    return which.ravel().astype(np.int64), names
