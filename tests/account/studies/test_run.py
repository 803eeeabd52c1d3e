from __future__ import annotations

from collections.abc import Mapping

import pytest
from transformers import GPT2Config, ViTConfig, ViTMAEConfig

from irene.account.live.session import Level
from irene.account.studies import MODES, Job, Mode, Subject
from irene.account.studies.profile import profile
from irene.account.studies.run import OWN, Run, perform
from irene.errors import UsageError
from tests.account.studies.steady import WATTS, albert, bert, quick


def phases(run: Run) -> Mapping[str, float]:
    return profile("any", [run]).by_phase()


@pytest.mark.parametrize("mode", MODES)
def test_a_step_of_every_mode(mode: Mode) -> None:
    run = perform(Job(bert(), mode, quick()))
    assert run.measured_j == pytest.approx(WATTS * run.window_s, rel=0.02)
    assert sum(run.step_j) == pytest.approx(run.attributed_j, rel=1e-6)
    assert len(run.step_j) == 2
    trained = {"backward", "optimizer"} <= set(phases(run))
    assert trained == (mode != "prediction")
    heads = {o.scope.partition(".")[0] for o in run.operations if not o.in_body}
    assert ("cls" in heads) == (mode == "pretraining")
    assert ("classifier" in heads) == (mode != "pretraining")


@pytest.mark.parametrize("level", ["op", "module"])
def test_parts_and_layers_of_bert(level: Level) -> None:
    run = perform(Job(bert(2), "finetuning", quick(level=level)))
    found = profile("bert", [run])
    for phase in ("forward", "backward"):
        assert {"embeddings", "encoder", "pooler"} <= set(found.parts(phase))
        inside = set(found.layers(phase))
        assert {"attention", "intermediate", "output"} <= inside
    roles = set(found.by_role())
    assert {"attention", "feed-forward", "embeddings", "head", "optimizer"} <= roles


def test_layers_are_merged_also_where_modules_name_ops() -> None:
    run = perform(Job(bert(2), "prediction", quick(level="op")))
    names = [(each.scope, each.op) for each in run.operations]
    assert ("encoder.layer.#.attention.self.query", "aten::addmm") in names
    assert ("encoder.layer.#", OWN) in names
    assert not [op for _, op in names if op.startswith("mod:")]
    keys = [(o.scope, o.op, o.phase, o.in_body) for o in run.operations]
    assert len(set(keys)) == len(keys)


def test_a_shared_layer_has_the_roles_of_bert() -> None:
    first, second = (
        set(profile("any", [perform(Job(s, "prediction", quick()))]).by_role())
        for s in (bert(), albert(2))
    )
    assert {"attention", "feed-forward", "norm", "embeddings"} <= first & second


def test_other_kinds_of_model() -> None:
    gpt2 = GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100)
    vit = ViTConfig(
        num_hidden_layers=1, hidden_size=32, num_attention_heads=2,
        intermediate_size=64, image_size=32,
    )  # fmt: skip
    for mode in MODES:
        assert perform(Job(Subject("gpt2", gpt2), mode, quick())).attributed_j > 0
    assert perform(Job(Subject("vit", vit), "finetuning", quick())).attributed_j > 0
    with pytest.raises(UsageError, match="no language-model head"):
        perform(Job(Subject("vit", vit), "pretraining", quick()))
    with pytest.raises(UsageError, match="no classification head"):
        perform(Job(Subject("mae", ViTMAEConfig()), "finetuning", quick()))


def test_a_run_can_be_kept() -> None:
    run = perform(Job(bert(), "prediction", quick()))
    assert Run.from_dict(run.to_dict()) == run
    with pytest.raises(TypeError):
        Run.from_dict({"operations": 3})


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"steps": 0}, "steps"), ({"runs": 0}, "runs"), ({"period_s": 0.0}, "period")],
)
def test_impossible_conditions(changes: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        quick(**changes)


def test_unknown_mode() -> None:
    with pytest.raises(UsageError, match="pretraining, finetuning, prediction"):
        Job(bert(), "sleeping", quick())  # type: ignore[arg-type]
