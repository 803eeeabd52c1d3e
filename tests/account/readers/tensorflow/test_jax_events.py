from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irene.account.events import Events
from irene.account.readers.recorded import read_trace, sniff
from irene.account.readers.tensorflow.hlo import (
    METADATA,
    HloNames,
    Program,
    read_hlo_text,
)
from irene.account.readers.tensorflow.xplane import read_xspace
from irene.account.readers.tensorflow.xplane_events import jax_events, parse_op_name
from irene.errors import FormatError
from tests.account.readers.tensorflow.xplane_bytes import MadePlane, environment, space

RECORDED = Path(__file__).parents[1] / "recorded"
TRACE = RECORDED / "jax_step.xplane.pb.gz"
TEXT = RECORDED / "jax_step.hlo.txt.gz"
LAYER = (
    *("attention.query", "attention.key", "attention.value", "attention.output"),
    *("attention.norm", "attention", "mlp.up", "mlp.down", "mlp.norm"),
)
MODULES = {f"layer_{i}.{part}" for i in range(2) for part in LAYER} | {"embed", "head"}


def ops(events: Events) -> list[int]:
    return np.flatnonzero(~events.is_mark).tolist()


def scopes(events: Events, phase: str) -> set[str]:
    return {events.scope[row] for row in ops(events) if events.phase[row] == phase}


def check_step(events: Events) -> None:
    # XLA fuses some modules into others; none is lost in both directions.
    assert scopes(events, "forward") | scopes(events, "backward") >= MODULES
    assert scopes(events, "backward") - {""} <= MODULES | {
        "layer_0.mlp",
        "layer_1.mlp",
    } | {"loss"}
    assert {f"layer_{i}.mlp.up" for i in range(2)} <= scopes(events, "backward")
    assert scopes(events, "optimizer") == {"optimizer"}
    assert scopes(events, "loss") == {"loss"}
    assert scopes(events, "other") == set()
    assert events.notes == ()
    assert events.steps == ("train 0", "train 1")
    assert {int(events.step[row]) for row in ops(events)} == {0, 1}


def test_every_instruction_of_a_recorded_step_is_placed() -> None:
    assert sniff(TRACE) == "xplane"
    check_step(read_trace(TRACE).events)


def test_the_text_of_the_module_tells_what_the_trace_itself_does() -> None:
    found = read_xspace(TRACE)
    bare = replace(found, planes=tuple(p for p in found.planes if p.name != METADATA))
    names = HloNames()
    names.add(read_hlo_text(TEXT))
    told, known = jax_events(bare, names), read_trace(TRACE).events
    check_step(told)
    for column in ("scope", "phase", "op"):
        one, other = getattr(told, column), getattr(known, column)
        assert [one[r] for r in range(len(told))] == [
            other[r] for r in range(len(known))
        ]


def test_without_any_module_that_is_said() -> None:
    found = read_xspace(TRACE)
    planes = tuple(p for p in found.planes if p.name != METADATA)
    events = jax_events(replace(found, planes=planes))
    assert scopes(events, "other") == {""}
    assert "give the text of the compiled module" in events.notes[0]


@pytest.mark.parametrize(
    ("name", "scope", "op", "transforms"),
    [
        ("jit(f)/layer_0/mlp/dot_general", "layer_0.mlp", "dot_general", set()),
        (
            "jit(f)/transpose(jvp(layer_0))/attention/bqd,bkd->bqk/dot_general",
            "layer_0.attention",
            "dot_general",
            {"transpose", "jvp"},
        ),
        ("jit(f)/jvp(Model)/encoder/jit(_var)/sub", "Model.encoder", "sub", {"jvp"}),
        ("jit(f)/jvp(Model/encoder)/add", "Model.encoder", "add", {"jvp"}),
        ("jit(f)/jvp()/while/body/closed_call/layers/mul", "layers", "mul", {"jvp"}),
        ("jit(f)/vmap(head)/jit(take_along_axis)", "head", "take_along_axis", {"vmap"}),
        ("jit(f)/cond/branch_1_fun/a/add", "a", "add", set()),
        ("jit(step)/mlp/mul;jit(step)/head/add", "mlp", "mul", set()),
        ("reduce_sum", "", "reduce_sum", set()),
        ("", "", "(call)", set()),
    ],
)
def test_op_names_are_taken_apart(
    name: str, scope: str, op: str, transforms: set[str]
) -> None:
    found = parse_op_name(name)
    assert (found.scope, found.op, found.transforms) == (scope, op, transforms)


def test_a_fusion_is_named_by_what_is_inside_and_a_buffer_by_its_user() -> None:
    program = Program("m")
    program.add("fused", "mul.1", "jit(f)/a/mul", [], [])
    program.add("fused", "mul.2", "jit(f)/a/mul", [], [])
    program.add("fused", "add.1", "jit(f)/b/add", [], [])
    program.add("main", "zeros", "", [], [])
    program.add("main", "fusion", "", ["fused"], ["zeros"])
    program.add("main", "lonely", "", [], [])
    assert program.op_name("fusion") == "jit(f)/a/mul"
    assert program.op_name("zeros") == "jit(f)/a/mul"
    assert program.op_name("lonely") == program.op_name("unheard of") == ""


def test_kernels_of_a_gpu_are_placed(tmp_path: Path) -> None:
    text = (
        "HloModule jit_f, is_scheduled=true\n\n"
        "ENTRY %main.3 (p: f32[8]) -> f32[8] {\n"
        "  %p = f32[8]{0} parameter(0)\n"
        "  ROOT %gemm.1 = f32[8]{0} add(%p, %p), "
        'metadata={op_name="jit(f)/jvp(a)/dot"}\n'
        "}\n"
    )
    (tmp_path / "f.txt").write_text(text)
    facts = {"hlo_op": "gemm.1", "hlo_module": "jit_f"}
    gpu = MadePlane("/device:GPU:0", {"Stream #7": [("sgemm", 10, 5, facts)]})
    path = tmp_path / "t.xplane.pb"
    path.write_bytes(space(gpu, environment()))
    events = read_trace(path, [tmp_path / "f.txt"]).events
    assert (events.device[0], events.scope[0], events.op[0]) == ("cuda:0", "a", "dot")


def test_an_update_outside_every_scope_is_said() -> None:
    found = read_xspace(TRACE)
    program = read_hlo_text(TEXT)
    program.op_names = {
        name: text.replace("/optimizer/", "/")
        for name, text in program.op_names.items()
    }
    names = HloNames()
    names.add(program)
    planes = tuple(p for p in found.planes if p.name != METADATA)
    events = jax_events(replace(found, planes=planes), names)
    assert scopes(events, "other") == {""}
    assert 'jax.named_scope("optimizer")' in events.notes[0]


def test_other_texts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text in ("", "module @jit_f {\n}\n", "HloModule nothing\n"):
        path.write_text(text)
        with pytest.raises(FormatError, match=r"x\.txt is not the text"):
            read_hlo_text(path)


def test_a_damaged_program_is_refused(tmp_path: Path) -> None:
    data = gzip.decompress(TRACE.read_bytes())
    at = data.index(b"/host:metadata") + 200
    path = tmp_path / "t.xplane.pb"
    path.write_bytes(data[:at] + b"\xff" * 64 + data[at + 64 :])
    with pytest.raises(FormatError, match=r"t\.xplane\.pb"):
        read_trace(path)
