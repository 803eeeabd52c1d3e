"""ONNX files that torch exports, and files made by hand."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import irene
from irene.errors import ConfigError, SpecError

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")


class Block(nn.Module):
    """A layer of an encoder, with shapes that are worked out as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.norm = nn.LayerNorm(32)
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (self.query(x), self.key(x), self.value(x))
        query, key, value = (self.heads(part) for part in parts)
        weights = torch.softmax(query @ key.transpose(-1, -2) / 8**0.5, -1)
        mixed = (weights @ value).transpose(1, 2).reshape(x.shape)
        return self.norm(x + self.feed(mixed))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        for weight in self.parameters():  # equal ones would be stored once
            nn.init.normal_(weight)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return x


def exported(path: Path, model: nn.Module, x: torch.Tensor, **names: object) -> Path:
    torch.onnx.export(model.eval(), (x,), str(path), dynamo=False, **names)
    return path


def product_flops(tree: irene.ModelTree) -> float:
    return sum(n.flops for n in tree.nodes("math") if "mm" in n.op or "conv" in n.op)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return exported(
        tmp_path / "encoder.onnx", Encoder(), torch.ones(2, 8, dtype=torch.long),
        input_names=["input_ids"],
        dynamic_axes={"input_ids": {0: "batch_size", 1: "sequence_length"}},
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_an_exported_encoder_has_the_products_of_the_model(encoder):
    tree = irene.trace(str(encoder), batch_size=4, seq_len=16)
    model = irene.trace(Encoder(), torch.ones(4, 16, dtype=torch.long))
    assert product_flops(tree) == product_flops(model)
    paths = {node.path for node in tree.nodes("module")}
    assert {"layers.0.query", "layers.1.feed.0"} <= paths
    assert any("as the graph has them" in note for note in tree.notes)
    (layers,) = [n for n in tree.root.children if n.name == "layers"]
    assert len(layers.children) == 2  # each called once
    assert tree.root.params == model.root.params
    twice = irene.trace(str(encoder), batch_size=8, seq_len=16)
    assert product_flops(twice) == 2 * product_flops(tree)
    assert irene.predict(encoder, batch_size=4, seq_len=16).energy_of(0).joules > 0


@pytest.mark.filterwarnings("ignore")
def test_an_exported_convolution_is_one(tmp_path):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    ).eval()  # fmt: skip
    x = torch.zeros(1, 3, 32, 32)
    tree = irene.trace(exported(tmp_path / "net.onnx", model, x))
    assert product_flops(tree) == product_flops(irene.trace(model, x))


def made(path: Path, *nodes: object, weights: list[object] = ()) -> Path:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes), "g",
        [helper.make_tensor_value_info("x", kind, ["batch", 1024])],
        [helper.make_tensor_value_info("y", kind, None)], list(weights),
    )  # fmt: skip
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_weights_beside_the_graph_are_never_opened(tmp_path):
    weight = onnx.TensorProto(
        name="w", dims=[1024, 4096], data_type=onnx.TensorProto.FLOAT,
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[onnx.StringStringEntryProto(key="location", value="gone.bin")],
    )  # fmt: skip
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/MatMul")
    tree = irene.trace(made(tmp_path / "m.onnx", node, weights=[weight]), batch_size=8)
    assert product_flops(tree) == 2 * 8 * 1024 * 4096


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda path: path.write_bytes(b"\x08\x07\x12"), "is no ONNX file"),
        (lambda path: path.write_bytes(b""), "is no ONNX file"),
        (lambda path: None, "cannot read"),
        (lambda path: made(path, onnx.helper.make_node("NoSuchOp", ["x"], ["y"])),
         "ops that are not known here: NoSuchOp"),
    ],
)  # fmt: skip
def test_files_that_are_none_are_told_in_one_sentence(tmp_path, write, says):
    write(tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match=says):
        irene.predict(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("op", "shapes", "given"),
    [
        ("MaxPool", [(1, 2, 9, 9)], {"kernel_shape": [3, 3]}),  # strides of 1
        ("AveragePool", [(1, 2, 9, 9)],
         {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
        ("Conv", [(1, 2, 9, 9), (4, 2, 3, 3)],
         {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ("Flatten", [(2, 3, 4)], {"axis": 2}),
        ("Max", [(2, 3), (1, 3), (2, 1)], {}),
        ("Gemm", [(2, 3), (3, 4), (1,)], {}),
        ("Concat", [(2, 3), (2, 1)], {"axis": 1}),
        ("Softmax", [(2, 3)], {"axis": 0}),
        ("ConvTranspose", [(2, 4, 8, 8), (4, 6, 3, 3)], {"strides": [2, 2]}),
        ("Einsum", [(2, 3, 4), (4, 5)], {"equation": "bsd,de"}),
        ("GlobalMaxPool", [(2, 3, 4, 4)], {}),
        ("LogSoftmax", [(2, 3)], {}),
    ],
)  # fmt: skip
def test_shapes_are_those_of_the_reference(op, shapes, given):
    from onnx.reference import ReferenceEvaluator

    from irene.trace.onnx_graph import Running
    from irene.trace.onnx_nodes import Tensor, kind_of

    names = [f"x{i}" for i in range(len(shapes))]
    node = onnx.helper.make_node(op, names, ["y"], name=op, **given)
    arrays = {n: np.ones(s, np.float32) for n, s in zip(names, shapes, strict=True)}
    (want,) = ReferenceEvaluator(node).run(None, arrays)
    values = [onnx.helper.make_tensor_value_info(n, 1, None) for n in (*names, "y")]
    graph = onnx.helper.make_graph([node], "g", values[:-1], values[-1:])
    running = Running(onnx.helper.make_model(graph))
    running.run({n: Tensor(a.shape, kind_of(a.dtype)) for n, a in arrays.items()})
    assert running.values["y"].shape == want.shape
    assert running.builder.rows[0].signature.outputs == (want.shape,)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_is_traced_without_torch(encoder):
    code = (
        "import sys, irene; irene.predict(sys.argv[1], on='pc1');"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    words = [sys.executable, "-c", code, str(encoder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore")
def test_ops_cost_what_torch_runs_for_them(encoder):
    """Products, copies, norms: the same math ops with the same shapes and costs."""

    def ops(tree):
        return Counter(
            (node.op, node.signature, node.flops, node.bytes_read, node.bytes_written)
            for node in tree.nodes("math")
            if node.op in ("aten.mm", "aten.bmm", "aten._softmax", "aten.gelu")
        )

    graph = irene.trace(str(encoder), batch_size=4, seq_len=16)
    model = irene.trace(Encoder(), torch.ones(4, 16, dtype=torch.long))
    products = [n for n in model.nodes("math") if n.op == "aten.addmm"]
    assert len(products) == sum(n.op == "aten.mm" for n in graph.nodes("math"))
    graph_ops, model_ops = ops(graph), ops(model)
    assert {k: n for k, n in graph_ops.items() if k[0] != "aten.mm"} == model_ops


@pytest.mark.filterwarnings("ignore")
def test_only_forward_is_in_a_graph(encoder):
    with pytest.raises(SpecError, match="has no phase 'train'"):
        irene.trace(str(encoder), phase="train")


def test_what_the_reference_does_not_know_is_known_by_its_shape(tmp_path):
    index = onnx.numpy_helper.from_array(np.zeros((4, 2), np.int64), "i")
    table = onnx.numpy_helper.from_array(np.zeros((1, 2), np.int64), "t")
    nodes = [
        onnx.helper.make_node("GatherElements", ["t", "i"], ["n"], axis=1),
        onnx.helper.make_node("Gather", ["x", "n"], ["y"], axis=1),
    ]
    path = made(tmp_path / "m.onnx", *nodes, weights=[index, table])
    assert irene.trace(path, batch_size=8).root.signature.outputs == ((8, 4, 2),)


@pytest.mark.parametrize(
    ("op", "shapes", "given", "flops"),
    [
        ("ConvTranspose", [(2, 4, 8, 8), (4, 6, 3, 3)], {}, 2 * 512 * 6 * 9),
        ("Einsum", [(2, 3, 4), (4, 5)], {"equation": "bsd,de->bse"}, 2 * 6 * 4 * 5),
        ("Einsum", [(2, 3, 4), (2, 5, 4)], {"equation": "bqd,bkd->bqk"}, 240),
        ("LSTM", [(7, 2, 8), (1, 64, 8), (1, 64, 16)], {"hidden_size": 16},
         2 * 14 * 64 * 24),
        ("Attention", [(2, 7, 32)] * 3, {"q_num_heads": 4, "kv_num_heads": 4},
         4 * 2 * 7 * 7 * 32),
    ],
)  # fmt: skip
def test_products_have_the_flops_of_their_sums(op, shapes, given, flops):
    from irene.trace.onnx_graph import Running
    from irene.trace.onnx_nodes import Tensor, kind_of

    names = [f"x{i}" for i in range(len(shapes))]
    node = onnx.helper.make_node(op, names, ["y"], name=op, **given)
    values = [onnx.helper.make_tensor_value_info(n, 1, None) for n in (*names, "y")]
    graph = onnx.helper.make_graph([node], "g", values[:-1], values[-1:])
    running = Running(onnx.helper.make_model(graph))
    kind = kind_of(np.dtype(np.float32))
    running.run({n: Tensor(s, kind) for n, s in zip(names, shapes, strict=True)})
    assert sum(row.flops for row in running.builder.rows) == flops


def test_whole_numbers_functions_and_larger_pictures_are_known(tmp_path):
    helper, from_array = onnx.helper, onnx.numpy_helper.from_array
    ours = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node(
            "QLinearConv", ["q", "s", "z", "k", "s", "z", "s", "z"], ["c"]
        ),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["d"]),
        helper.make_node("Resize", ["d", "", "scales"], ["r"]),
        helper.make_node("Twice", ["r"], ["y"], domain="local"),
    ]
    weights = [
        from_array(np.float32(0.1), "s"), from_array(np.int8(0), "z"),
        from_array(np.zeros((6, 3, 3, 3), np.int8), "k"),
        from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
    ]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, 1, ["b", 3, 10, 10]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[ours])
    onnx.save(model, str(tmp_path / "m.onnx"))
    tree = irene.trace(str(tmp_path / "m.onnx"), batch_size=2)
    found = {node.op: node for node in tree.nodes("math")}
    assert found["aten.convolution"].flops == 2 * (2 * 6 * 8 * 8) * 27
    assert found["aten.upsample_nearest2d"].signature.outputs == ((2, 6, 16, 16),)
    assert found["aten.add"].flops == 2 * 6 * 16 * 16


def test_what_runtimes_fuse_is_known(tmp_path):
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones(16, np.float32), "w")
    inner = {"domain": "com.microsoft"}
    norm = ["n", "", "", "sum"]
    nodes = [
        helper.make_node("SkipLayerNormalization", ["x", "x", "w", "w"], norm, **inner),
        helper.make_node("BiasGelu", ["n", "w"], ["g"], **inner),
        helper.make_node("Add", ["g", "sum"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, 1, ["b", "s", 16]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), str(tmp_path / "m.onnx"))
    tree = irene.trace(str(tmp_path / "m.onnx"), batch_size=2, seq_len=4)
    assert [node.op for node in tree.nodes("math")] == [
        "aten.native_layer_norm", "aten.gelu", "aten.add",
    ]  # fmt: skip
    assert tree.root.signature.outputs == ((2, 4, 16),)
