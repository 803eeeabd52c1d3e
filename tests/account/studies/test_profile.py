from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.account.studies.comparisons import between_groups, elasticities
from irene.account.studies.findings import shape_findings
from irene.account.studies.profile import (
    layer_path,
    matrix,
    median_difference,
    pearson,
    profile,
    role_of,
)
from irene.account.studies.run import OperationKey
from tests.account.studies.steady import made_run

ENERGIES = st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=20, unique=True)


@given(ENERGIES, st.floats(0.1, 10))
def test_twice_the_energy_is_perfectly_alike(values: list[float], by: float) -> None:
    one = dict(enumerate(values))
    other = {key: by * value for key, value in one.items()}
    assert pearson(one, one) == pytest.approx(1)
    assert pearson(one, other) == pytest.approx(1)
    assert median_difference(one, one) == 0
    assert median_difference(one, other) == pytest.approx(100 * (by - 1), abs=1e-6)


def test_only_what_both_have_counts() -> None:
    one = {"a": 1.0, "b": 2.0, "c": 4.0, "only here": 9.0}
    other = {"a": 4.0, "b": 2.0, "c": 1.0, "only there": 9.0}
    assert pearson(one, other) == pytest.approx(-13 / 14)
    assert median_difference(one, other) == 0
    assert median_difference(other, {"a": 2.0}) == -50


def test_too_little_is_not_known() -> None:
    assert math.isnan(pearson({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}))
    assert math.isnan(pearson({1: 1.0, 2: 1.0, 3: 1.0}, {1: 1.0, 2: 2.0, 3: 3.0}))
    assert math.isnan(median_difference({"a": 1.0}, {"b": 1.0}))


def test_a_matrix_is_symmetric_with_ones() -> None:
    tables = [{"a": 1.0, "b": 2.0, "c": x} for x in (3.0, 5.0, 1.0)]
    found = matrix(pearson, tables)
    for i in range(3):
        assert found[i][i] == pytest.approx(1)
        assert found[i] == pytest.approx([row[i] for row in found])


def test_powers_with_which_energy_follows() -> None:
    sizes = [(layers, width) for layers in (2, 4) for width in (256, 512)]
    fields = [{"L": layers, "H": width, "act": "relu"} for layers, width in sizes]
    energies = [float(layers * width**2) for layers, width in sizes]
    assert elasticities(fields, energies) == pytest.approx({"L": 1, "H": 2})


def test_means_of_runs_agree_better_than_runs() -> None:
    noise = [(0.5, -0.5), (-0.5, 0.5), (0.4, -0.4), (-0.4, 0.4)]
    runs = [{"a": 1 + x, "b": 2.0, "c": 3 + y, "d": 2.5} for x, y in noise]
    found = between_groups(runs)
    assert set(found) == {1.0, 2.0}
    assert len(found[1.0]) == 6
    assert len(found[2.0]) == 3
    assert sum(found[2.0]) / 3 > sum(found[1.0]) / 6


def test_a_profile_is_the_mean_of_its_runs() -> None:
    runs = [
        made_run({"encoder.layer.#.attention": (1.0, 3.0), "pooler": (2.0, 2.0)}),
        made_run({"encoder.layer.#.attention": (4.0, 4.0)}),
    ]
    found = profile("bert", runs)
    assert found.total_j == pytest.approx((4 + 4) / 2)
    assert found.parts("forward") == {"encoder": 3.0, "pooler": 1.0}
    assert found.deviation_j == 0
    shares = {f.name: f.value for f in shape_findings(found)}
    assert shares["bert, forward: encoder, of the model"] == 75
    assert shares["bert, forward: attention, inside a layer"] == 100


@pytest.mark.parametrize(
    ("scopes", "path"),
    [
        (["a.layer.#.x", "a.layer.#.y.#", "pooler"], "a.layer.#"),
        (["g.#.layers.#.x", "g.#.layers.#.y", "g.#.layers.#"], "g.#.layers.#"),
        (["a.layer.#.attention", "pooler"], "a.layer.#"),
        (["pooler", "a.b"], None),
    ],
)
def test_where_layers_are(scopes: list[str], path: str | None) -> None:
    assert layer_path(scopes) == path


@pytest.mark.parametrize(
    ("scope", "role"),
    [
        ("encoder.layer.#.attention.output.dense", "attention"),
        ("encoder.layer.#.output.dense", "feed-forward"),
        ("encoder.layer.#.output.LayerNorm", "norm"),
        ("encoder.albert_layer_groups.#.albert_layers.#.ffn_output", "feed-forward"),
        ("h.#.attn.c_proj", "attention"),
        ("h.#.ln_#", "norm"),
        ("h.#.mlp.c_fc", "feed-forward"),
        ("wte", "embeddings"),
        ("embeddings.LayerNorm", "embeddings"),
        ("pooler.dense", "pooler"),
    ],
)
def test_roles(scope: str, role: str) -> None:
    assert role_of(OperationKey(scope, "op", "backward", True)) == role
    assert role_of(OperationKey(scope, "op", "backward", False)) == "head"
    assert role_of(OperationKey(scope, "op", "optimizer", True)) == "optimizer"


def test_a_finding_tells_its_spread_and_when_it_is_noise():
    from irene.account.studies.findings import Finding, ratio_finding

    assert Finding("a", 2.34567, "J").words == "2.346 J"
    assert Finding("a", 2.34567, "J", 0.0421).words == "2.35 ± 0.042 J"
    assert Finding("a", 11.02, spread=9.0).words == "11 ± 9, noise"
    ratio = ratio_finding("a", (6.0, 0.6), (3.0, 0.3))
    assert ratio.value == 2.0
    assert ratio.spread == pytest.approx(2.0 * 0.02**0.5)
