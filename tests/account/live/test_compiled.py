"""Modules inside compiled regions, by real backends and by code that Inductor wrote."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from irene.account.live.inductor import (
    Graph,
    Node,
    Step,
    inductor_steps,
    saved_paths,
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
        primals_1, primals_4, gelu, bmm, view, tangents_1 = args
        buf0 = empty_strided_cpu((64, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [gelu, mm], Original ATen: [aten.mm]
        extern_kernels.mm(tangents_1, primals_4, out=buf0)
        # Topologically Sorted Source Nodes: [gelu, mm_1], Original ATen: [aten.mm]
        extern_kernels.mm(reinterpret_tensor(tangents_1, (16, 64)), gelu, out=buf1)
        cpp_fused_gelu_backward_0(buf0)
        # Topologically Sorted Source Nodes: [mm_2], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, view, out=buf4)
        extern_kernels.bmm(buf0, view, out=buf5)
        return (reinterpret_tensor(buf4, (32, 16), (16, 1), 0), None, None, buf1, )
"""
NODES = [Node(name, path, op) for name, path, op in (
    ("linear", "layer.fc", "aten::linear"), ("gelu", "layer.act", "aten::gelu"),
    ("linear_1", "layer.out", "aten::linear"), ("add", "layer", "aten::add"),
    ("norm", "layer.norm", "aten::layer_norm"), ("head", "head", "aten::linear"),
)]  # fmt: skip
WEIGHT_OF = (0, 0, None, 2, 2, 5)
GRAPH = Graph(NODES, [[] if n is None else [NODES[n]] for n in WEIGHT_OF])


def test_calls_of_inductor_have_the_modules_of_their_nodes() -> None:
    assert inductor_steps(FORWARD, GRAPH) == [
        Step("aten::addmm", "layer.fc"),
        Step("cpp_fused_gelu_0", "layer.act", is_fused=True),
        Step("aten::addmm", "layer.out"),
        Step("cpp_fused_add_native_layer_norm_1", "layer", is_fused=True),
        Step("mkl::_mkl_linear", "head"),
    ]


def test_products_of_gradients_have_the_modules_of_their_weights() -> None:
    """Whatever nodes the code names: `gelu` is the sibling that comes before."""
    saved = {"gelu": "layer.act", "bmm": "head", "view": "layer.fc"}
    assert inductor_steps(BACKWARD, GRAPH, saved) == [
        Step("aten::mm", "layer.out"),
        Step("aten::mm", "layer.out"),
        Step("cpp_fused_gelu_backward_0", "layer", is_fused=True),
        Step("aten::mm", "layer.fc"),
        Step("aten::bmm", "layer.fc"),
    ]


def test_what_was_saved_is_known_by_the_order_of_what_is_returned() -> None:
    returns = "return (buf2, primals_1, primals_4, buf1, buf2, buf0, )"
    source = FORWARD.replace("return (buf2, )", returns)
    steps = inductor_steps(source, GRAPH)
    found = saved_paths(source, steps, BACKWARD)
    assert found == {"gelu": "layer.act", "bmm": "layer.out", "view": "layer.fc"}


def test_a_weight_of_two_modules_belongs_to_the_one_that_multiplies() -> None:
    """As in models whose last product shares the weight of their embedding."""
    nodes = [Node("embed", "wte", "aten::embedding"), Node("l", "head", "aten::linear")]
    source = (
        "def call(self, args):\n        extern_kernels.mm(buf0, primals_1, out=b)\n"
    )
    assert inductor_steps(source, Graph(nodes, [nodes])) == [Step("aten::mm", "head")]


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
