"""Which nodes are the same run, and running one alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from irene.measure.alone.capture import CannotRunError, NodeCall
from irene.measure.alone.target import make_sane, named_target, own_target
from irene.spec import RunSpec
from irene.trace.limits import DEFAULT_LIMITS

from .made_up_nodes import Once, Stack, stack_input

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def captured(model_type: str, device: str = "cpu", fields=(), **sizes):
    config = AutoConfig.for_model(model_type, **{**SMALL, **dict(fields)})
    spec = RunSpec(model_type, seq_len=8, **sizes)
    return named_target(config, spec, device, DEFAULT_LIMITS).capture()


def of_module(model: nn.Module, x: torch.Tensor):
    sizes = {"phase": "forward"}
    return own_target(model, (x,), sizes, "auto", DEFAULT_LIMITS).capture()


def by_op(nodes) -> dict[str, list]:
    found: dict[str, list] = {}
    for node in nodes:
        found.setdefault(node.op, []).append(node)
    return found


def test_equal_layers_and_repeated_calls_are_run_once():
    tree, nodes = of_module(Stack(), stack_input())
    ops = by_op(nodes)
    assert [len(node.rows) for node in ops["Layer"]] == [3]
    assert [len(node.rows) for node in ops["Linear"]] == [3]
    assert sorted(row for node in nodes for row in node.rows) == list(range(len(tree)))
    assert {node.kind for node in nodes} == {"model", "module", "ml"}


@pytest.mark.parametrize(
    ("change", "distinct"),
    [
        (lambda m: None, 1),
        (lambda m: setattr(m.layers[1], "scale", 2.0), 2),
        (lambda m: setattr(m.layers[1], "layer_idx", 1), 1),
        (lambda m: m.layers[1].dense.double().float(), 1),
        (lambda m: setattr(m.layers[1].dense, "bias", None), 2),
    ],
)
def test_layers_differ_by_what_they_do_not_by_where_they_stand(change, distinct):
    model = Stack()
    change(model)
    _, nodes = of_module(model, stack_input())
    assert len(by_op(nodes)["Layer"]) == distinct


def test_the_same_model_is_named_alike_on_any_device_and_in_any_run():
    on_meta = [node.key for node in captured("bert", "meta")[1]]
    assert on_meta == [node.key for node in captured("bert", "meta")[1]]
    on_cpu = captured("bert")[1]
    assert [node.key for node in on_cpu] == [n.key for n in captured("bert")[1]]
    assert len(on_cpu) == len(on_meta)


@pytest.mark.parametrize(
    ("model_type", "fields", "sizes"),
    [
        ("bert", {}, {}),
        ("bert", {}, {"attention": "sdpa"}),
        ("albert", {"embedding_size": 16}, {}),
        ("llama", {"num_key_value_heads": 1}, {"phase": "decode"}),
        ("llama", {"num_key_value_heads": 1}, {"phase": "prefill", "dtype": "bf16"}),
        ("t5", {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2}, {}),
    ],
)
def test_every_node_of_a_model_runs_alone(model_type, fields, sizes):
    _, nodes = captured(model_type, fields=fields, **sizes)
    with torch.inference_mode():
        for node in nodes:
            assert node.call is not None, node.label
            node.call.alone()()


def test_a_node_alone_gives_what_it_gave_inside_the_model():
    x = stack_input()
    model = Stack().eval()
    _, nodes = of_module(model, x)
    layer = by_op(nodes)["Layer"][0]
    assert torch.equal(layer.call.alone()(), model.layers[0](x))


def test_products_and_their_copies_are_run_apart():
    _, nodes = captured("bert", batch_size=2)
    ops = by_op(nodes)
    assert [node.op for node in ops["matmul"]] == ["matmul", "matmul"]
    assert ops["copy"]
    for node in (*ops["matmul"], *ops["copy"]):
        names = [str(func) for func, _, _ in node.call.func.calls]
        copies = [name for name in names if "clone" in name or "copy" in name]
        assert copies == (names if node.op == "copy" else [])


def test_a_cache_does_not_grow_when_its_step_is_repeated():
    _, nodes = captured(
        "llama", fields={"num_key_value_heads": 1}, phase="decode", context_len=5
    )
    updates = by_op(nodes)["kv_cache_update"]
    assert [len(node.rows) for node in updates] == [3]
    run = nodes[0].call.alone()
    lengths = {run().past_key_values.get_seq_length() for _ in range(3)}
    assert lengths == {6}


def test_a_node_that_writes_into_its_inputs_leaves_those_of_others_alone():
    x = torch.ones(4)
    run = NodeCall(torch.Tensor.add_, (x, 1.0)).alone()
    run()
    run()
    assert x.tolist() == [1.0] * 4


def test_copies_are_laid_out_as_the_inputs_were():
    x = torch.zeros(3, 2).t()
    y = torch.ones(1, 3).expand(2, 3)
    assert not x.is_contiguous()
    out = NodeCall(torch.Tensor.add_, (x, y)).alone()()
    assert out.stride() == x.stride()
    assert x.tolist() == [[0.0] * 3] * 2


def used_up() -> Once:
    model = Once()
    model(torch.ones(4))
    return model


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (NodeCall(used_up(), (torch.ones(4),)), "IndexError: pop from empty list"),
        (NodeCall(torch.Tensor.unsqueeze_, (torch.ones(4), 0)), "changes the shape"),
    ],
)
def test_what_cannot_be_run_alone_says_why(call, reason):
    with pytest.raises(CannotRunError, match=reason):
        call.alone()


def test_weights_that_nobody_set_get_usual_values():
    model = nn.Linear(64, 64)
    before = model.bias.clone()
    with torch.no_grad():
        model.weight.fill_(1e-42)
    make_sane(model)
    assert 0.015 < float(model.weight.detach().std()) < 0.025
    assert torch.equal(model.bias, before)
    with torch.no_grad():
        model.weight[0, 0] = float("nan")
    make_sane(model)
    assert bool(model.weight.isfinite().all())
