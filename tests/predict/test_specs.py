"""`specs`: work of trees, fits on made-up machines, the exams on PC1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irene
from irene.dataset import NodeTable
from irene.predict import crossvalidate, make_split
from irene.predict.machines.finding import find_machine
from irene.predict.machines.specs.kernels import (
    KernelData,
    KernelModel,
    Tiling,
    all_tilings,
    best_together,
    bias_mib,
    explain,
    fit_kernels,
    roofline_work,
)
from irene.predict.machines.specs.regression import (
    BUSY_SHARE,
    fit_residual,
    fit_with_floor,
    with_floor,
)
from irene.predict.machines.specs.specs_method import SHARED_JOINER, SpecsMethod
from irene.predict.machines.specs.work import MIB, STREAMS, Kernel, work_of
from irene.predict.paper.baselines import CountersMethod, PartialMethod


def test_the_work_of_a_bert_is_its_kernels_streams_and_calls():
    tree = irene.trace("bert-l2-h128", batch_size=2, seq_len=16)
    work = work_of(tree)
    root = {k: n for k, n in zip(work.kernels, work.counts[0], strict=True) if n}
    # query, key, value and output of two layers
    assert root[Kernel("gemm", (1, 32, 128, 128), bias=True)] == 8
    assert root[Kernel("gemm", (1, 32, 512, 128), bias=True)] == 2
    assert root[Kernel("bmm", (4, 16, 16, 64))] == 2  # Q·K
    assert root[Kernel("bmm", (4, 16, 64, 16))] == 2  # A·V
    assert root[Kernel("norm", (32, 128))] == 5
    assert root[Kernel("softmax", (64, 16))] == 2
    layer = tree.find("encoder.layer.0")
    special = work.stream_mib[layer.row, STREAMS.index("special")]
    assert special == 2 * 32 * 512 * 4 / MIB  # GELU reads and writes 32 × 512
    assert work.calls[0, 2] == sum(1 for _ in tree.nodes("module"))


def test_folding_does_not_change_the_work():
    tree = irene.trace("bert-l2-h128", seq_len=16)
    plain, folded = work_of(tree), work_of(tree.fold())
    assert set(plain.kernels) == set(folded.kernels)
    assert plain.counts[0].sum() == folded.counts[0].sum()
    np.testing.assert_allclose(plain.stream_mib[0], folded.stream_mib[0])
    np.testing.assert_allclose(plain.calls[0], folded.calls[0])


def test_conv1d_is_a_product_with_its_weight_the_other_way_round():
    kernels = work_of(irene.trace("distilgpt2", batch_size=1, seq_len=8)).kernels
    assert Kernel("gemm", (1, 8, 2304, 768), bias=True, transposed=True) in kernels


def test_tiles_and_waves_are_filled_up():
    kernel = Kernel("gemm", (1, 100, 70, 10))
    tiles, waves, moved = roofline_work([kernel], Tiling(64, 32, 4))[0]
    assert tiles == pytest.approx(2 * (2 * 3) * 64 * 32 * 10 / 1e9)  # 2 × 3 tiles
    assert waves == pytest.approx(2 * 8 * 64 * 32 * 10 / 1e9)  # 6 tiles, waves of 4
    assert moved == pytest.approx(4 * (1000 + 700 + 7000) / MIB)


def made_up_machine() -> KernelModel:
    return KernelModel(
        (Tiling(64, 64, 28),), (np.array([0.01, 0.05, 0.0008]),), 0.0015, 0.003, None
    )


def products() -> list[Kernel]:
    sizes = [(1, m, n, k) for m in (64, 256, 700, 2000, 5000) for n, k in
             ((256, 256), (768, 768), (3072, 768), (768, 3072))]  # fmt: skip
    return [Kernel("gemm", size, bias=True) for size in sizes]


def test_a_made_up_machine_is_found_again():
    machine, kernels = made_up_machine(), products()
    energy_j, _ = machine.predict(kernels)
    data = KernelData.of(kernels, energy_j)
    fitted, _ = fit_kernels(data, floor_limit_j=0.006, bias_j_per_mib=0.0015)
    unseen = [Kernel("gemm", (1, m, 1024, 1024), bias=True) for m in (300, 1500, 9000)]
    np.testing.assert_allclose(
        fitted.predict(unseen)[0], machine.predict(unseen)[0], rtol=0.08
    )
    again = KernelModel.from_dict(fitted.to_dict())
    np.testing.assert_allclose(again.predict(unseen)[0], fitted.predict(unseen)[0])


def test_products_smaller_than_measured_follow_from_the_larger():
    machine = made_up_machine()
    shapes = ((768, 768), (3072, 768), (768, 3072))
    large = [
        Kernel("gemm", (1, m, n, k)) for m in range(1280, 5000, 256) for n, k in shapes
    ]
    small = [Kernel("gemm", (1, m, n, k)) for m in (256, 512, 768) for n, k in shapes]
    noise = np.random.default_rng(0).normal(1.0, 0.005, len(large))
    data = KernelData.of(large, machine.predict(large)[0] * noise)
    fitted, _ = fit_kernels(data, floor_limit_j=0.006)
    predicted, true = fitted.predict(small)[0], machine.predict(small)[0]
    assert np.abs(predicted / true - 1).mean() < 0.05


def test_an_empty_place_in_a_wave_costs_at_least_what_waiting_does():
    kernels = products()
    free_places = KernelModel(
        (Tiling(64, 64, 28),), (np.array([0.06, 0.0, 0.0008]),), 0.0, 0.003, None
    )
    data = KernelData.of(kernels, free_places.predict(kernels)[0])
    fitted, _ = fit_kernels(data, floor_limit_j=0.006)
    for tile_j, wave_j, _ in fitted.rates:
        assert wave_j >= (1 - BUSY_SHARE) * (tile_j + wave_j) - 1e-12


def test_tilings_that_the_measured_products_cannot_tell_apart_count_once():
    kernels = [Kernel("gemm", (1, m, 768, 768)) for m in range(256, 2049, 256)]
    energy_j, _ = made_up_machine().predict(kernels)
    found = explain(kernels, energy_j, 0.006, np.zeros(len(kernels)), all_tilings())
    together = [e.tilings for e in found if Tiling(64, 64, 28) in e.tilings]
    assert len(together) == 1
    assert Tiling(64, 32, 56) in together[0]
    assert sorted(t for e in found for t in e.tilings) == sorted(all_tilings())


def test_an_average_does_at_least_as_well_as_the_best_alone():
    machine, kernels = made_up_machine(), products()
    noise = np.random.default_rng(1).normal(1.0, 0.05, len(kernels))
    energy_j = machine.predict(kernels)[0] * noise
    known = machine.bias_j_per_mib * bias_mib(kernels)
    found = explain(kernels, energy_j, 0.006, known, all_tilings())
    kept = best_together(found)
    mean = np.mean([e.errors for e in kept], axis=0)
    assert mean @ mean <= found[0].loss
    assert list(kept) == found[: len(kept)]


def test_one_layout_of_a_weight_tells_about_the_other():
    sizes = np.log([256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])
    bend = 0.1 * np.sin(2 * sizes)
    shapes = np.vstack([np.column_stack([sizes, np.full(6, x)]) for x in (0.0, 0.15)])
    left_out = 8
    kept = np.delete(np.arange(12), left_out)
    logs = np.concatenate([bend, bend])
    residual = fit_residual(shapes[kept], logs[kept], np.full(11, 6.0))
    assert residual is not None
    predicted = float(residual.predict(shapes[[left_out]])[0])
    assert abs(predicted - logs[left_out]) < 0.5 * abs(logs[left_out])


def test_a_bias_costs_only_where_there_is_one():
    with_bias = Kernel("gemm", (1, 128, 128, 128), bias=True)
    without = Kernel("gemm", (1, 128, 128, 128))
    assert bias_mib([with_bias, without]).tolist() == [2 * 4 * 128 * 128 / MIB, 0.0]


@given(
    st.floats(0.001, 0.1),
    st.floats(0.0005, 0.005),
    st.integers(0, 10_000),
)
@settings(max_examples=25)
def test_rate_and_floor_are_found_again(rate, floor_j, seed):
    size = np.geomspace(0.01, 100, 30)
    energy_j = with_floor(rate * size, floor_j)
    noise = np.random.default_rng(seed).normal(1.0, 0.002, len(size))
    fit = fit_with_floor(size[:, None], energy_j * noise, floor_limit_j=2 * floor_j)
    predicted = with_floor(size * fit.rates[0], fit.floor_j)
    np.testing.assert_allclose(predicted, energy_j, rtol=0.03)


@given(st.integers(1, 64), st.sampled_from((16, 64, 100, 256, 512)))
@settings(max_examples=20)
def test_more_layers_take_more_and_parts_add_up(batch, length):
    predictor = find_machine("pc1")
    energies = []
    for layers in (2, 4):
        tree = irene.trace(f"bert-l{layers}-h128", batch_size=batch, seq_len=length)
        predicted = predictor.predict(tree)
        assert predicted.energy is not None
        assert predicted.own_j is not None
        assert (predicted.energy.joules > -1e-12).all()
        assert predicted.own_j.min() > -1e-9
        energies.append(predicted.root.energy.joules)
    assert energies[0] < energies[1]


def test_energy_grows_with_size():
    predictor = find_machine("pc1")
    joules = [
        predictor.predict(
            irene.trace("bert-base-uncased", batch_size=batch, seq_len=128)
        ).root.energy.joules
        for batch in (1, 2, 4, 8, 16, 32)
    ]
    assert joules == sorted(joules)


def average(table: NodeTable, make, split: str) -> tuple[float, float, float]:
    result = crossvalidate(table, lambda _: make(), make_split(split)).average
    return result.ml, result.module, result.model


def test_counters_on_pc1(pc1: NodeTable):
    for split in ("model", "family"):
        ml, module, model = average(pc1, CountersMethod, split)
        assert (ml < 0.55, module < 0.50, model < 0.50) == (True, True, True)


def test_every_measured_node_is_in_our_trace(pc1: NodeTable):
    for index in range(0, len(pc1.keys), 23):
        joined = SHARED_JOINER.join(pc1, index)
        assert joined is not None
        assert joined.unmatched == ()
        rows = range(int(pc1.starts[index]), int(pc1.starts[index + 1]))
        for node, row in zip(joined.nodes, rows, strict=True):
            if pc1.op[row] in ("Linear", "Conv1D", "LayerNorm"):
                assert joined.tree.strings[joined.tree.columns.op[node]] == pc1.op[row]


def test_copied_measurements_are_scored_at_the_shape_that_was_run(pc1: NodeTable):
    index = next(i for i, key in enumerate(pc1.keys) if key.model == "gpt2")
    joined = SHARED_JOINER.join(pc1, index)
    assert joined is not None
    first = int(pc1.starts[index])
    row = next(
        i for i in range(first, len(pc1)) if pc1.path[i].endswith("h.0.mlp.c_proj")
    )
    run = joined.measured_as[row - first]
    assert joined.tree.paths[run].endswith("h.0.mlp.c_fc")


def test_specs_from_a_few_sizes_predicts_the_family_left_out(pc1: NodeTable):
    few = [
        i
        for i, key in enumerate(pc1.keys)
        if (key.batch_size, key.seq_len) in ((8, 64), (16, 128), (24, 192), (32, 96))
    ]
    some = pc1.take(few)
    ml, module, model = average(some, SpecsMethod, "family")
    assert ml < 8
    assert module < 6
    assert model < 5
    ml, module, model = average(some, PartialMethod, "model")
    assert module < 3
    assert model < 0.6


def test_a_model_without_a_config_is_predicted_from_its_file(pc1: NodeTable):
    few = [i for i, key in enumerate(pc1.keys) if key.seq_len == 128]
    some = pc1.take(few)
    from dataclasses import replace

    keys = tuple(
        key._replace(model="nobody-knows-me") if key.model == "gpt2" else key
        for key in some.keys
    )
    renamed = replace(some, keys=keys)
    test = [i for i, key in enumerate(keys) if key.model == "nobody-knows-me"]
    train = [i for i in range(len(keys)) if i not in test]
    method = SpecsMethod().fit(renamed.take(train))
    table = renamed.take(test)
    errors = np.abs(method.predict(table) / table.energy_j - 1)
    assert "nobody-knows-me" in method.joiner.unknown
    assert errors[table.rows("model")].mean() < 0.25
