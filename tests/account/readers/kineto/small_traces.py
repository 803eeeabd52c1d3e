"""Small traces as the profiler of each era would write them."""

from __future__ import annotations

from typing import Any

BASE_NS = 1_700_000_000_000_000_000
HOST, ENGINE = 10, 11


def event(
    category: str,
    name: str,
    ts_us: float,
    duration_us: float,
    tid: int = HOST,
    **args: Any,
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid,
        "ts": ts_us, "dur": duration_us, "args": args,
    }  # fmt: skip


def kernel(name: str, ts_us: float, duration_us: float, **args: Any) -> dict[str, Any]:
    found = event("kernel", name, ts_us, duration_us, tid=7, **args)
    return {**found, "pid": 0}


def launch(
    ts_us: float, correlation: int, tid: int = HOST, **args: Any
) -> dict[str, Any]:
    return event(
        "cuda_runtime", "cudaLaunchKernel", ts_us, 2, tid=tid,
        correlation=correlation, **args,
    )  # fmt: skip


def today() -> dict[str, Any]:
    """A training step with marks, as torch 2 writes it."""
    gpu = {"device": 0, "stream": 7, "grid": [80, 1, 1], "block": [128, 1, 1]}
    return {
        "schemaVersion": 1,
        "traceEvents": [
            event("user_annotation", "ProfilerStep#3", 0, 1000),
            event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 1, 50),
            event("cpu_op", "aten::stack", 5, 20, **{"External id": 9}),
            event("user_annotation", "mod:fc", 100, 100),
            event(
                "cpu_op", "aten::linear", 110, 80,
                **{"External id": 1, "Sequence number": 5},
            ),
            event(
                "cpu_op", "aten::addmm", 120, 60,
                **{"External id": 2, "Sequence number": 5},
            ),
            launch(130, 501, **{"External id": 2}),
            kernel("void gemm<float>(x)", 200, 90, **{"External id": 2},
                   correlation=501, **gpu, **{"blocks per SM": 1.0}),
            event("cpu_op", "aten::mse_loss", 220, 10,
                  **{"External id": 3, "Sequence number": 6}),
            event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0",
                  400, 100, tid=ENGINE,
                  **{"External id": 4, "Sequence number": 5, "Fwd thread id": 1}),
            event("cpu_op", "AddmmBackward0", 405, 90, tid=ENGINE,
                  **{"External id": 5, "Sequence number": 5, "Fwd thread id": 1}),
            event("cpu_op", "aten::mm", 410, 80, tid=ENGINE, **{"External id": 6}),
            launch(420, 502, tid=ENGINE, **{"External id": 6}),
            kernel("void gemm<float>(y)", 500, 180, **{"External id": 6},
                   correlation=502, **gpu, **{"blocks per SM": 4.0}),
            event(
                "cpu_op",
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                510, 10, tid=ENGINE, **{"External id": 7},
            ),
            event("user_annotation", "Optimizer.step#SGD.step", 700, 100),
            event("cpu_op", "aten::add_", 720, 30, **{"External id": 8}),
            launch(730, 503, **{"External id": 8}),
            kernel("add", 760, 20, **{"External id": 8}, correlation=503, **gpu),
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
            {"ph": "f", "id": 501, "pid": 0, "tid": 7, "ts": 200, "cat": "ac2g"},
        ],
        "baseTimeNanoseconds": BASE_NS,
    }  # fmt: skip


def of_2022() -> dict[str, Any]:
    """Whole microseconds since 1970, and `External id` repeats `correlation`."""
    begin = BASE_NS // 1000
    gpu = {"device": 2, "stream": 7}
    return {
        "traceEvents": [
            event("cpu_op", "aten::mm", begin + 10, 20, **{"External id": 1}),
            # External id 1 is the correlation, and not the op above.
            launch(begin + 52, 1, **{"External id": 1}),
            event("cpu_op", "aten::bmm", begin + 50, 5, **{"External id": 2}),
            kernel("gemm", begin + 60, 5, **{"External id": 1}, correlation=1, **gpu),
            # Rounded: the launch seems to begin as its op ends.
            event("cpu_op", "aten::add", begin + 70, 5, **{"External id": 3}),
            launch(begin + 75, 4, **{"External id": 4}),
            kernel("add", begin + 80, 5, **{"External id": 4}, correlation=4, **gpu),
            event("user_annotation", "Optimizer.step#FusedAdam.step", begin + 90, 20),
            launch(begin + 95, 6, **{"External id": 6}),
            kernel("adam", begin + 120, 5, **{"External id": 6}, correlation=6, **gpu),
            kernel(
                "stray", begin + 130, 5, **{"External id": 99}, correlation=99, **gpu
            ),
        ]
    }
