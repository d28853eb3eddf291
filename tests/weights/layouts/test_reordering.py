import pytest
import torch

from src.weights.layouts.reordering import FUSED, GRID, KEY_BIAS, ROW, UNFOLDED


def test_queries_keys_and_values_stand_one_after_the_other():
    parts = [torch.full((2, 3), float(i)) for i in range(3)]
    (fused,) = FUSED.to_ours(parts)
    assert fused[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    for part, back in zip(parts, FUSED.to_theirs([fused]), strict=True):
        assert torch.equal(part, back)


def test_the_bias_of_keys_is_left_out_and_comes_back_as_zero():
    query, value = KEY_BIAS.to_ours([torch.arange(1.0, 7)])
    assert (query.tolist(), value.tolist()) == ([1, 2], [5, 6])
    (back,) = KEY_BIAS.to_theirs([query, value])
    assert back.tolist() == [1, 2, 0, 0, 5, 6]


@pytest.mark.parametrize("count", [1, 6, 9])
def test_a_row_of_tokens_stays_a_row_for_it_does_not_tell_its_grid(count):
    row = torch.arange(2.0 * count).view(1, count, 2)
    for change in (ROW, GRID):
        (grid,) = change.to_ours([row])
        assert grid.shape == (1, 2, 1, count)
        assert torch.equal(grid[0, 1, 0], row[0, :, 1])
    assert torch.equal(ROW.to_theirs([grid])[0], row)
    assert GRID.to_theirs([grid])[0] is grid


def test_a_grid_is_a_row_of_tokens_row_by_row():
    grid = torch.arange(12.0).view(1, 2, 2, 3)
    (row,) = ROW.to_theirs([grid])
    assert row[0].tolist() == [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]


@pytest.mark.parametrize("change", [ROW, GRID])
def test_a_grid_stays_as_it_is(change):
    grid = torch.randn(1, 2, 3, 5)
    assert change.to_ours([grid])[0] is grid


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_precision_stays(dtype):
    tensor = torch.randn(12, 8).to(dtype)
    for change in (FUSED, UNFOLDED):
        assert all(part.dtype == dtype for part in change.to_theirs([tensor]))
    assert all(part.dtype == dtype for part in KEY_BIAS.to_theirs([tensor[:, 0], tensor[:, 1]]))


def test_parts_of_a_tensor_do_not_share_its_memory():
    fused = torch.randn(6, 2)
    for parts in (FUSED.to_theirs([fused]), KEY_BIAS.to_ours([fused[:, 0]])):
        memories = {part.untyped_storage().data_ptr() for part in [fused, *parts]}
        assert len(memories) == 1 + len(parts)
        assert all(part.untyped_storage().nbytes() == part.nbytes for part in parts)


@pytest.mark.parametrize(
    ("way", "shapes", "must"),
    [
        (FUSED.to_ours, [(4, 2), (4, 2), (4, 3)], "be of one shape"),
        (FUSED.to_ours, [(4,), (2,), (4,)], "be of one shape"),
        (FUSED.to_theirs, [(4, 2)], "three equal parts"),
        (FUSED.to_theirs, [()], "three equal parts"),
        (KEY_BIAS.to_ours, [(4,)], "three equal parts"),
        (KEY_BIAS.to_theirs, [(4,), (2,)], "be of one shape"),
        (ROW.to_theirs, [(1, 4, 2)], "have 4 dimensions"),
        (ROW.to_ours, [(2, 6, 2)], r"be \(1, tokens, channels\)"),
        (GRID.to_ours, [(6,)], r"be \(1, tokens, channels\)"),
        (GRID.to_ours, [()], r"be \(1, tokens, channels\)"),
        (UNFOLDED.to_ours, [(2, 6)], "four times as many inputs"),
        (UNFOLDED.to_theirs, [()], "four times as many inputs"),
    ],
)
def test_shapes_that_cannot_be_changed_are_told(way, shapes, must):
    with pytest.raises(ValueError, match=must):
        way([torch.zeros(shape) for shape in shapes])
