from __future__ import annotations

import pytest
import torch

from irene.trace.values import (
    DataDependentError,
    carrying_values,
    give_value,
    keeping_literals,
    run_with_values,
    value_of,
)

aten = torch.ops.aten


def ids() -> torch.Tensor:
    return give_value(torch.arange(12).reshape(3, 4))


def content(tensor: torch.Tensor) -> list[int]:
    value = value_of(tensor)
    assert tensor.device.type == "meta"
    assert value is not None
    return value.tolist()


def test_content_follows_through_ops_and_can_be_read():
    with carrying_values():
        mask = ids() > 4
        assert mask.any()
        assert mask.sum().item() == 7
        assert mask.nonzero().shape == (7, 2)
        assert ids()[1].tolist() == [4, 5, 6, 7]
        assert 11 in ids()
        assert 12 not in ids()


def test_content_of_python_numbers_is_known():
    with carrying_values():
        table = torch.tensor([[1, 2], [3, 4]], device="meta")
        assert table.tolist() == [[1, 2], [3, 4]]
        assert ids()[:, [-1, 0]].tolist() == [[3, 0], [7, 4], [11, 8]]


def test_content_of_a_list_of_known_tensors_is_known():
    lengths = give_value(torch.tensor([2, 3]))
    with carrying_values():
        ends = torch.tensor([0, *lengths], device="meta").cumsum(0)
        assert ends.tolist() == [0, 2, 5]


def test_literals_alone_are_kept_without_watching_ops():
    with keeping_literals():
        table = torch.tensor([7, 8], device="meta")
    assert content(table) == [7, 8]


def test_unknown_content_cannot_be_read():
    unknown = torch.empty(3, device="meta")
    with carrying_values():
        with pytest.raises(DataDependentError, match="needs the tensor's content"):
            unknown.sum().item()
        with pytest.raises(DataDependentError):
            unknown.tolist()


def test_a_known_mask_selects_from_unknown_content():
    rows = torch.empty(3, 4, 5, device="meta")
    with carrying_values():
        assert rows[ids() > 4].shape == (7, 5)
        assert torch.masked_select(rows[..., 0], ids() > 4).shape == (7,)
        with pytest.raises(DataDependentError):
            rows[rows > 0]


def test_writing_something_unknown_makes_all_views_unknown():
    with carrying_values():
        known = ids()
        row = known[1]
        row.copy_(torch.empty(4, device="meta"))
        assert value_of(row) is None
        assert value_of(known) is None


def test_writing_through_a_view_is_seen_in_the_whole():
    with carrying_values():
        known = ids()
        known[1] = 0
        assert known.tolist()[1] == [0, 0, 0, 0]


def test_small_cpu_tensors_may_meet_meta_tensors():
    with carrying_values():
        total = ids() + torch.arange(4)
        assert total.tolist()[0] == [0, 2, 4, 6]
        scores = torch.empty(2, 3, device="meta")
        hidden = scores.masked_fill(torch.ones(2, 3).bool(), torch.tensor(-1.0))
        assert hidden.shape == (2, 3)


def test_the_given_tensor_is_copied():
    given = torch.zeros(3)
    run_with_values(aten.add_.Tensor, (give_value(given), 1), {})
    assert given.tolist() == [0, 0, 0]


def test_random_and_reserved_memory_has_no_content():
    with carrying_values():
        assert value_of(torch.rand(3, device="meta")) is None
        assert value_of(torch.empty(3, device="meta")) is None
        assert value_of(torch.zeros(3, device="meta")) is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_product_has_a_shape_in_every_dtype(dtype):
    rows = torch.empty(10, 8, device="meta", dtype=dtype)
    experts = torch.empty(4, 8, 6, device="meta", dtype=dtype)
    ends = torch.empty(4, device="meta", dtype=torch.int32)
    out = run_with_values(aten._grouped_mm.default, (rows, experts, ends), {})
    assert out.shape == (10, 6)
    assert out.dtype == dtype


def test_what_is_expanded_is_known_once_whatever_its_size():
    padding = give_value(torch.tensor([[1, 1, 0], [1, 0, 0]]))
    with carrying_values():
        mask = padding[:, None, None].expand(2, 1, 4_000_000, 3).to(torch.float32)
        inverted = (1.0 - mask).masked_fill((1.0 - mask).bool(), -9.0) * 2
        assert inverted.shape == (2, 1, 4_000_000, 3)
        assert inverted[:, 0, 7].tolist() == [[0, 0, -18], [0, -18, -18]]


def test_what_has_the_same_value_everywhere_is_known_once():
    rows = give_value(torch.arange(5_000)[:, None])
    columns = give_value(torch.arange(5_000)[None])
    with carrying_values():
        mask = (rows >= 0) & (columns > 7)
        assert mask[3].sum().item() == 4_992


def test_who_writes_into_a_part_of_it_makes_the_rest_unknown():
    with carrying_values():
        mask = give_value(torch.ones(1)).expand(4_000_000) * 2
        row = mask[:1]
        row.fill_(3)
        assert row.item() == 3
        with pytest.raises(DataDependentError):
            mask[5].item()
        mask[:9].add_(1)
        with pytest.raises(DataDependentError):
            row.item()
