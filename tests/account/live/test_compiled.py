"""Modules inside compiled regions, by real backends and by code that Inductor wrote."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from irene.account.live.compiled import (
    Graph,
    Node,
    Step,
    inductor_steps,
    shared_path,
)
from tests.account.live.test_live import watched

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using `torch.compile", "ignore:The .grad attribute"
)

FORWARD = """
    def call(self, args):
        buf0 = empty_strided_cpu((64, 32), (32, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
        extern_kernels.addmm(primals_2, primals_3, primals_1, out=buf0)
        buf1 = empty_strided_cpu((64, 32), (32, 1), torch.float32)
        cpp_fused_gelu_0(buf0, buf1)
        buf2 = empty_strided_cpu((64, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [gelu, linear_1], Original ATen: [mm]
        extern_kernels.addmm(primals_5, buf1, primals_4, out=buf2)
        cpp_fused_add_native_layer_norm_1(buf2, primals_3)
        # Topologically Sorted Source Nodes: [head], Original ATen: [aten.addmm]
        torch.ops.mkl._mkl_linear.default(buf2, primals_6)
        return (buf2, )
"""
BACKWARD = """
    def call(self, args):
        buf0 = empty_strided_cpu((64, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear_1, mm], Original ATen: [aten.mm]
        extern_kernels.mm(tangents_1, primals_4, out=buf0)
        buf1 = empty_strided_cpu((16, 32), (32, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mm_1], Original ATen: [aten.mm]
        extern_kernels.mm(tangents_1, buf9, out=buf1)
        cpp_fused_gelu_backward_0(buf0)
        buf3 = buf1; del buf1  # reuse
        buf4 = empty_strided_cpu((32, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mm_2], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, primals_3, out=buf4)
        return (buf4, )
"""
NODES = [Node(name, path) for name, path in (
    ("linear", "layer.fc"), ("gelu", "layer.act"), ("linear_1", "layer.out"),
    ("add", "layer"), ("norm", "layer.norm"), ("head", "head"),
)]  # fmt: skip
WEIGHTS = {"layer.fc": {("32", "16"), ("32",)}, "layer.out": {("16", "32"), ("16",)}}
GRAPH = Graph(NODES, WEIGHTS)


def test_calls_of_inductor_have_the_modules_of_their_nodes() -> None:
    assert inductor_steps(FORWARD, GRAPH) == [
        Step("aten::addmm", "layer.fc"),
        Step("cpp_fused_gelu_0", "layer.act", is_fused=True),
        Step("aten::addmm", "layer.out"),
        Step("cpp_fused_add_native_layer_norm_1", "layer", is_fused=True),
        Step("mkl::_mkl_linear", "head"),
    ]


def test_gradients_of_weights_are_known_by_their_shapes() -> None:
    assert inductor_steps(BACKWARD, GRAPH) == [
        Step("aten::mm", "layer.out"),
        Step("aten::mm", "layer.out"),
        Step("cpp_fused_gelu_backward_0", "layer", is_fused=True),
        Step("aten::mm", "layer.fc"),
    ]


def test_gradients_of_equal_weights_belong_to_one_module_each() -> None:
    source = "def call(self, args):  # tangents_1\n" + "".join(
        f"        buf{n} = empty_strided_cpu((16, 16), (16, 1))\n"
        f"        # Topologically Sorted Source Nodes: [mm_{n}], Original ATen: [mm]\n"
        f"        extern_kernels.mm(a, b, out=buf{n})\n"
        for n in range(3)
    )
    nodes = [Node(f"linear_{name}", name) for name in "qkv"]
    steps = inductor_steps(source, Graph(nodes, {n: {("16", "16")} for n in "qkv"}))
    assert {step.path for step in steps} == set("qkv")


@pytest.mark.parametrize(
    ("paths", "shared"),
    [(("a.b.c", "a.b"), "a.b"), (("a.bc", "a.bd"), "a"), (("a", ""), ""), ((), "")],
)
def test_the_smallest_module_around(paths: tuple[str, ...], shared: str) -> None:
    assert shared_path(paths) == shared


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(256, 512), nn.Linear(512, 256)
        self.norm = nn.LayerNorm(256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.out(torch.relu(self.fc(x))))


def model() -> nn.Module:
    return nn.ModuleDict({"body": nn.Sequential(Block(), Block())})["body"]


def modules(backend: str, *, inner: bool = False) -> dict[str, tuple[float, float]]:
    """Forward and backward energy of each module of two blocks, warm."""
    torch._dynamo.reset()
    plain, inputs = model(), torch.randn(64, 256)
    if inner:
        plain[1].compile(backend=backend)  # in place
        compiled: nn.Module = plain
    else:
        compiled = torch.compile(plain, backend=backend)
    compiled(inputs).sum().backward()
    with watched(plain) as ledger:
        for _ in range(5):
            compiled(inputs).sum().backward()
    assert not any("compiled regions" in note for note in ledger.notes)
    products = [r for r in ledger.operations() if r.op in ("aten::mm", "aten::addmm")]
    assert {row.scope for row in products} == {"#.fc", "#.out"}
    return {row.path: (row.forward_j, row.backward_j) for row in ledger.by_module()}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_ops_of_a_graph_that_runs_op_by_op_have_their_modules(backend: str) -> None:
    found = modules(backend)
    assert {f"{n}.{part}" for n in "01" for part in ("fc", "out", "norm")} <= set(found)
    for path in ("0.fc", "0.out", "1.fc", "1.out"):
        assert min(found[path]) > 0
    (forward_j, backward_j), (all_forward_j, all_backward_j) = found["1"], found[""]
    assert 0 < forward_j < all_forward_j
    assert 0 < backward_j < all_backward_j


def test_a_part_that_was_compiled_in_place_keeps_its_place() -> None:
    found = modules("eager", inner=True)
    assert min(found["1.fc"]) > 0
    assert "fc" not in found


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a compiler")
def test_kernels_of_inductor_have_their_modules() -> None:
    found = modules("inductor")
    for path in ("0.fc", "0.out", "1.fc", "1.out"):
        assert min(found[path]) > 0
