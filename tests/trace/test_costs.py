"""Bytes and FLOPs of each primitive, worked out by hand, on meta and on the CPU.

Shapes: 4 rows of 8 features unless said otherwise; fp32, so 4 bytes per element.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers.pytorch_utils import Conv1D

import irene
from irene.trace.costs import COSTS, Call, OpCost, cost_formula, register_cost

ROWS = 4 * 8
X = ROWS * 4  # bytes of the input

MODULES = [
    # 2·4·8·16; x, 16·8 weights, 16 biases; 4·16 out
    (nn.Linear(8, 16), (4, 8), 1024, X + 512 + 64, 256),
    (nn.Linear(8, 16, bias=False), (4, 8), 1024, X + 512, 256),
    # the weight is stored the other way round, the product is the same
    (Conv1D(16, 8), (4, 8), 1024, X + 512 + 64, 256),
    # five operations per element and two for weight and bias
    (nn.LayerNorm(8), (4, 8), 7 * ROWS, X + 32 + 32, X),
    (nn.LayerNorm(8, elementwise_affine=False), (4, 8), 5 * ROWS, X, X),
    (nn.RMSNorm(8), (4, 8), 4 * ROWS, X + 32, X),
    # (x - mean)·scale·weight + bias; four vectors of 8
    (nn.BatchNorm1d(8), (4, 8), 4 * ROWS, X + 4 * 32, X),
    # 8 positions × 16 channels out, each a sum over 8 channels × 3 taps
    (nn.Conv1d(8, 16, 3), (4, 8, 10), 2 * 4 * 16 * 8 * 24, 1280 + 1536 + 64, 2048),
    # a depthwise convolution sums over one channel
    (nn.Conv1d(8, 8, 3, groups=8), (4, 8, 10), 2 * 4 * 8 * 8 * 3, 1280 + 96 + 32, 1024),
    (nn.MaxPool1d(2), (4, 8, 10), 2 * 4 * 8 * 5, 1280, 640),
    (nn.AvgPool1d(2), (4, 8, 10), 2 * 4 * 8 * 5, 1280, 640),
    # 4 gates of 16: 20 steps × (8 + 16) × 64 multiply-adds; out, h and c
    (
        nn.LSTM(8, 16, batch_first=True),
        (4, 5, 8),
        2 * 20 * 24 * 64,
        640 + 4 * (24 * 64 + 128),
        1280 + 256 + 256,
    ),
    (nn.Tanh(), (4, 8), ROWS, X, X),
    (nn.ReLU(), (4, 8), ROWS, X, X),
    (nn.LeakyReLU(), (4, 8), 2 * ROWS, X, X),
    (nn.Sigmoid(), (4, 8), 4 * ROWS, X, X),
    (nn.LogSigmoid(), (4, 8), 4 * ROWS, X, X),
    (nn.SiLU(), (4, 8), 5 * ROWS, X, X),
    (nn.GELU(), (4, 8), 5 * ROWS, X, X),
    (nn.GELU(approximate="tanh"), (4, 8), 9 * ROWS, X, X),
    (nn.Softmax(-1), (4, 8), 5 * ROWS, X, X),
    (nn.Dropout(), (4, 8), 0, 0, 0),  # not training: nothing happens
]


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(
    ("module", "shape", "flops", "read", "written"),
    MODULES,
    ids=[f"{type(case[0]).__name__}-{i}" for i, case in enumerate(MODULES)],
)
def test_module(module, shape, flops, read, written, device):
    tree = irene.trace(nn.Sequential(module), torch.zeros(shape), device=device)
    (node,) = tree.root.children
    assert (node.kind, node.op) == ("ml", type(module).__name__)
    assert (node.flops, node.bytes_read, node.bytes_written) == (flops, read, written)
    assert node.inputs[0] == shape
    assert tree.unsupported == {}


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_embedding_reads_the_rows_it_looks_up_and_not_the_table(device):
    ids = torch.arange(12).reshape(4, 3)
    tree = irene.trace(nn.Sequential(nn.Embedding(1000, 8)), ids, device=device)
    (node,) = tree.root.children
    assert node.flops == 0
    assert node.bytes_read == 12 * 8 + 12 * 8 * 4  # int64 ids, fp32 rows
    assert node.bytes_written == 12 * 8 * 4
    assert node.params == 8000


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


FUNCTIONS = {
    # 6 products of 4×8 by 8×5
    "matmul": (torch.matmul, [(2, 3, 4, 8), (2, 3, 8, 5)], 1920, 768 + 960, 480),
    "matmul_broadcast": (torch.matmul, [(2, 3, 4, 8), (8, 5)], 1920, 768 + 160, 480),
    "bmm": (torch.bmm, [(3, 4, 8), (3, 8, 5)], 960, 384 + 480, 240),
    "einsum": (
        lambda a, b: torch.einsum("bqd,bkd->bqk", a, b),
        [(3, 4, 8), (3, 5, 8)],
        960,
        384 + 480,
        240,
    ),
    "softmax": (lambda a: torch.softmax(a, -1), [(3, 4, 8)], 480, 384, 384),
    # 6 heads of 4 queries by 5 keys of 8, twice
    "sdpa": (
        F.scaled_dot_product_attention,
        [(2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8)],
        2 * 2 * 6 * 4 * 5 * 8,
        768 + 960 + 960,
        768,
    ),
    # 8 query heads share 2·2 key heads: the work is that of the queries
    "grouped_query": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [(2, 4, 4, 8), (2, 2, 5, 8), (2, 2, 5, 8)],
        2 * 2 * 8 * 4 * 5 * 8,
        1024 + 640 + 640,
        1024,
    ),
    "add": (torch.add, [(3, 4), (3, 4)], 12, 96, 48),
    "add_broadcast": (torch.add, [(3, 4), (4,)], 12, 48 + 16, 48),
    "cat": (lambda a, b: torch.cat((a, b)), [(3, 4), (2, 4)], 0, 80, 80),
    "gelu": (F.gelu, [(3, 4)], 60, 48, 48),
    "transpose": (lambda a: a.transpose(0, 1), [(3, 4)], 0, 0, 0),
    "contiguous": (lambda a: a.T.contiguous(), [(3, 4)], 0, 48, 48),
    "rms_norm": (lambda a, w: F.rms_norm(a, (4,), w), [(3, 4), (4,)], 48, 48 + 16, 48),
    "cumsum": (lambda a: a.cumsum(0), [(3, 4)], 12, 48, 48),
    "sum": (lambda a: a.sum(), [(3, 4)], 12, 48, 4),
}


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name, device):
    function, shapes, flops, read, written = FUNCTIONS[name]
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    tree = irene.trace(Function(function), inputs, device=device)
    total = tree.total()
    assert (total.flops, total.bytes_read, total.bytes_written) == (
        flops,
        read,
        written,
    )
    assert all(node.kind == "ml" for node in tree.root.children)
    assert tree.unsupported == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_grouped_product_reads_the_experts_that_are_hit(dtype):
    def experts(rows, weights):
        ends = torch.tensor([8] * weights.shape[0], dtype=torch.int32).to(rows.device)
        return F.grouped_mm(rows, weights, offs=ends)

    size = dtype.itemsize
    with torch.device("meta"):
        few = (torch.zeros(8, 16, dtype=dtype), torch.zeros(100, 16, 32, dtype=dtype))
        many = (torch.zeros(800, 16, dtype=dtype), torch.zeros(4, 16, 32, dtype=dtype))
    node = irene.trace(Function(experts), few).by_operator()["grouped_mm"]
    assert node.flops == 2 * 8 * 16 * 32
    # 8 rows spread over 100 experts hit 7.7 of them: 8 matrices are read, not 100
    assert node.bytes_read == size * 8 * 16 + size * 8 * 16 * 32 + 100 * 4
    node = irene.trace(Function(experts), many).by_operator()["grouped_mm"]
    assert node.bytes_read == size * 800 * 16 + size * 4 * 16 * 32 + 4 * 4


def test_a_product_of_strided_inputs_shows_its_copies():
    def attention(a, b):
        return a.transpose(1, 2) @ b.transpose(1, 2).transpose(2, 3)

    inputs = torch.zeros(2, 4, 3, 8), torch.zeros(2, 5, 3, 8)
    tree = irene.trace(Function(attention), inputs)
    costs = tree.by_operator()
    assert (costs["matmul"].flops, costs["matmul"].bytes_read) == (1920, 768 + 960)
    assert costs["copy"].bytes_read == costs["copy"].bytes_written == 768 + 960
    ops = [node.op for node in tree.root.children]
    assert ops.index("copy") == ops.index("matmul") - 1


def test_an_op_in_place_costs_what_the_op_does():
    x = torch.zeros(4, 8)
    found = [irene.trace(nn.Hardswish(inplace=p), x) for p in (False, True)]
    assert found[1].unsupported == {}
    assert found[0].total().flops == found[1].total().flops == 4 * 32


def test_an_unknown_op_is_listed_and_its_bytes_counted():
    tree = irene.trace(Function(torch.linalg.inv), torch.eye(4), device="cpu")
    assert tree.unsupported["aten.linalg_inv_ex"] == 1
    leaf = next(node for node in tree.nodes("math") if node.unsupported)
    assert leaf.flops == 0
    assert leaf.bytes_read == 64
    assert '"aten.linalg_inv_ex": 1' in tree.to_json()


@pytest.fixture
def restored_costs():
    before = dict(COSTS)
    yield
    COSTS.clear()
    COSTS.update(before)


@pytest.mark.usefixtures("restored_costs")
def test_a_user_can_add_a_formula_for_an_op():
    register_cost("aten.linalg_inv_ex", lambda call: call.streamed(2 * 4**3))
    tree = irene.trace(Function(torch.linalg.inv), torch.eye(4), device="cpu")
    assert tree.total().flops == 128
    assert "aten.linalg_inv_ex" not in tree.unsupported


@pytest.mark.usefixtures("restored_costs")
def test_a_user_can_add_a_formula_for_a_module():
    class Kernel(nn.Module):
        def forward(self, x):
            return (x * 2 + 1).tanh()

    @cost_formula("Kernel")
    def kernel(call: Call) -> OpCost:
        assert isinstance(call.module, Kernel)
        return OpCost(3 * call.inputs[0].numel, call.bytes_in, call.bytes_out)

    tree = irene.trace(nn.Sequential(Kernel()), torch.zeros(5))
    (node,) = tree.root.children
    assert (node.kind, node.op, node.flops, node.bytes) == ("ml", "Kernel", 15, 40)
    assert [leaf.op for leaf in node.children] == ["Kernel"]


def test_half_precision_moves_half_the_bytes():
    model = nn.Sequential(nn.Linear(8, 16))
    full = irene.trace(model, torch.zeros(4, 8)).total()
    half = irene.trace(model.half(), torch.zeros(4, 8).half()).total()
    assert (half.flops, 2 * half.bytes) == (full.flops, full.bytes)
