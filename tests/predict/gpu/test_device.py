"""What a GPU answers, and that it says where it does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from irene.errors import FormatError, UsageError
from irene.predict.machines.finding import find_gpu, known_machines
from irene.predict.machines.gpu.gpu_device import (
    GpuDevice,
    device_bytes,
    read_device,
    stand_in,
    write_device,
)
from irene.predict.machines.gpu.kernel_ops import (
    Collective,
    ContextAttention,
    Gemm,
    GenerationAttention,
    Memory,
    Moe,
    Op,
)

MEASURED = ("b200", "h100", "h200")
OPS: tuple[Op, ...] = (
    Gemm(64, 6144, 4096),
    Gemm(4096, 28672, 4096, "fp8_block"),
    ContextAttention(8, 1024, 0, 32, 8, 128),
    GenerationAttention(64, 1000.5, 32, 8, 128),
    GenerationAttention(64, 4000.0, 16, 8, 256, window=1024, cache_dtype="fp8"),
    Moe(64, 2048, 768, 8, 128),
    Moe(64, 2880, 2880, 4, 32, "mxfp4"),
    Memory(1e6, 1e6),
    Collective(1e6, 4),
)


@pytest.fixture(scope="module", params=MEASURED)
def device(request: pytest.FixtureRequest) -> GpuDevice:
    return find_gpu(request.param).device


def test_times_are_inside_their_intervals(device: GpuDevice) -> None:
    costs = device.costs(OPS)
    assert len(costs) == len(OPS)
    assert (costs.time_low <= costs.time_s).all()
    assert (costs.time_s <= costs.time_high).all()


def test_an_op_costs_the_same_alone_and_among_others(device: GpuDevice) -> None:
    together = device.costs(OPS)
    for place, op in enumerate(OPS):
        alone = device.costs([op])
        assert alone.time_s[0] == together.time_s[place]
        assert alone.reasons[0] == together.reasons[place]


def test_no_kernel_beats_the_datasheet_by_much(device: GpuDevice) -> None:
    big = [Gemm(8192, 8192, 8192), GenerationAttention(256, 8192.0, 32, 8, 128)]
    costs = device.costs(big)
    assert costs.flops[0] / costs.time_s[0] < device.sheet.peak("bf16")
    assert costs.bytes[1] / costs.time_s[1] < 1.1 * device.sheet.hbm_bytes_s


def test_ops_with_tables_are_not_rough_and_others_say_why(device: GpuDevice) -> None:
    known = device.costs([Gemm(64, 6144, 4096), Moe(64, 2048, 768, 8, 128)])
    assert not known.is_rough.any()
    assert known.reasons == ("", "")
    rough = device.costs([Memory(1e6, 0.0), Gemm(10**6, 64, 64)])
    assert rough.is_rough.all()
    assert "nobody measured" in rough.reasons[0]
    assert "beyond" in rough.reasons[1]
    assert not device.costs([Collective(1e6, 2)]).is_rough.any()


def test_far_outside_the_tables_the_roofline_carries(device: GpuDevice) -> None:
    one, eight = device.costs(
        [Gemm(100_000, 8192, 8192), Gemm(800_000, 8192, 8192)]
    ).time_s
    assert eight / one == pytest.approx(8, rel=0.1)
    short, long = device.costs(
        [GenerationAttention(8, x, 32, 8, 128) for x in (200_000.0, 800_000.0)]
    ).time_s
    assert long / short == pytest.approx(4, rel=0.2)


def test_more_tokens_never_take_much_less(device: GpuDevice) -> None:
    times = device.costs([Gemm(m, 6144, 4096) for m in range(1, 3000, 7)]).time_s
    so_far = np.maximum.accumulate(times)
    assert (times > 0.85 * so_far).all()


def test_more_context_takes_longer(device: GpuDevice) -> None:
    contexts = (100.0, 1000.0, 10_000.0, 100_000.0)
    times = device.costs(
        [GenerationAttention(32, context, 32, 8, 128) for context in contexts]
    ).time_s
    assert (np.diff(times) > 0).all()


def test_small_block_scaled_products_do_not_wait_in_graphs(device: GpuDevice) -> None:
    op = Gemm(16, 4096, 4096, "fp8_block")
    inside, alone = device.costs([op]), device.costs([op], eager=True)
    assert "waiting" in inside.reasons[0]
    assert inside.time_s < 0.5 * alone.time_s


def test_fp8_weights_are_faster_where_memory_decides(device: GpuDevice) -> None:
    wide, narrow = device.costs(
        [Gemm(8, 28672, 8192), Gemm(8, 28672, 8192, "fp8")]
    ).time_s
    assert 0.4 < narrow / wide < 0.8


def test_errors_and_files_are_inside(device: GpuDevice) -> None:
    told = device.provenance
    assert told["time_percent"]["gemm/bf16"]["groups"] > 100
    assert told["time_percent"]["gemm/bf16"]["median_percent"] < 4.5
    assert all(len(t["sha256"]) == 64 for t in told["tables"].values())


def test_files_are_small_and_come_back_the_same(
    device: GpuDevice, tmp_path: Path
) -> None:
    path = write_device(device, tmp_path)
    again = read_device(path)
    assert path.read_bytes() == known_machines()[device.name].read_bytes()
    assert again.digest == device.digest
    assert np.array_equal(again.costs(OPS).time_s, device.costs(OPS).time_s)


def test_all_files_together_are_below_four_megabytes() -> None:
    folder = known_machines()["h200"].parent
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4e6


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    whole = device_bytes(find_gpu("h200").device)
    for content in (b"", b"{}", whole[: len(whole) // 2], b"\x1f\x8b\x08junk"):
        path.write_bytes(content)
        with pytest.raises(FormatError):
            read_device(path)


def test_a_gpu_with_a_datasheet_only_names_its_stand_in() -> None:
    b200 = find_gpu("b200").device
    gb200 = stand_in(find_gpu("gb200").device.sheet, b200)
    assert gb200.kernels.stands_in == "b200"
    theirs, ours = b200.costs(OPS), gb200.costs(OPS)
    talks = [isinstance(op, Collective) for op in OPS]
    assert (ours.is_rough | talks).all()  # all-reduces were measured on it
    assert "that of b200" in ours.reasons[0]
    assert "b200" in gb200.provenance["caveats"][0]
    wider = np.log(ours.time_high / ours.time_low)
    assert (wider[:4] > np.log(theirs.time_high / theirs.time_low)[:4]).all()
    # It is somewhat faster in everything.
    assert (ours.time_s[:5] <= 1.05 * theirs.time_s[:5]).all()


@pytest.mark.parametrize("on", ["a100", "b300", "gb200", "l40s", "rtx-pro-6000"])
def test_gpus_with_tables_of_their_own_need_no_stand_in(on: str) -> None:
    device = find_gpu(on).device
    assert device.kernels.stands_in == ""
    found = device.costs(
        [Gemm(64, 8192, 4096), GenerationAttention(8, 900.0, 32, 8, 128)]
    )
    assert not found.is_rough.any()
    errors = device.provenance["time_percent"]
    assert errors["gemm/bf16"]["median_percent"] < 5
    assert errors["generation_attention/bf16"]["median_percent"] < 6


def test_slower_sheets_are_slower() -> None:
    op = [GenerationAttention(64, 4096.0, 32, 8, 128)]
    times = [
        find_gpu(name).device.costs(op).time_s[0]
        for name in ("b200", "h200", "a100", "l40s")
    ]
    assert times == sorted(times)


def test_an_unknown_gpu_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match=r"there is .*h200"):
        find_gpu("h2000")
