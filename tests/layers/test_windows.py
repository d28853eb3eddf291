import pytest
import torch

from src.layers.windows import (
    kept_shift,
    outside,
    padded_size,
    partition,
    window_coords,
    window_regions,
    zero_outside,
)
from tests.layers.window_references import batch_regions, reverse

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("size", "window", "expected"),
    [((1, 1), (7, 7), (7, 7)), ((14, 7), (7, 7), (14, 7)), ((15, 9), (7, 4), (21, 12)), ((5, 3), (1, 1), (5, 3))],
)
def test_padded_size_is_the_next_whole_number_of_windows(size, window, expected):
    assert padded_size(size, window) == expected


def test_windows_are_cut_row_by_row_after_padding_and_rolling():
    x = torch.arange(1, 13).view(1, 3, 4, 1)
    windows = partition(x, (2, 3), (1, 1))
    # the padded map is 4x6; rolled by one it starts with row 1, column 1
    assert windows[0, :, :, 0].tolist() == [
        [6, 7, 8, 10, 11, 12],
        [0, 0, 5, 0, 0, 9],
        [0, 0, 0, 2, 3, 4],
        [0, 0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("size", [(1, 1), (3, 10), (7, 7), (8, 13)])
@pytest.mark.parametrize("window", [(7, 7), (2, 5), (1, 3)])
@pytest.mark.parametrize("shifted", [False, True])
def test_reverse_puts_back_what_partition_cut(size, window, shifted):
    x = torch.randn(2, *size, 3)
    shift = (window[0] // 2, window[1] // 2) if shifted else (0, 0)
    assert torch.equal(reverse(partition(x, window, shift), size, window, shift), x)


@pytest.mark.parametrize(
    ("size", "kept"), [((7, 8), (0, 2)), ((8, 5), (3, 0)), ((7, 5), (0, 0)), ((8, 6), (3, 2)), ((1, 1), (0, 0))]
)
def test_the_shift_goes_along_an_axis_that_one_window_covers(size, kept):
    assert kept_shift((3, 2), size, (7, 5), shift_covered=False) == kept
    assert kept_shift((3, 2), size, (7, 5), shift_covered=True) == (3, 2)


def test_coordinates_run_row_by_row():
    assert window_coords((2, 3), CPU).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert window_coords((1, 1), CPU).tolist() == [[0, 0]]


def test_without_shift_and_padding_there_is_one_region():
    assert window_regions((5, 5), (5, 5), (2, 2), (0, 0), False, CPU) is None
    assert window_regions((4, 4), (4, 4), (2, 2), (0, 0), True, CPU) is None


def test_a_window_that_wraps_round_has_a_region_for_each_side():
    regions = window_regions((4, 4), (4, 4), (2, 2), (1, 1), False, CPU)
    assert [len(set(window.tolist())) for window in regions] == [1, 2, 2, 4]


def test_padding_is_a_region_of_its_own_only_when_masked():
    assert window_regions((3, 4), (3, 4), (2, 2), (0, 0), False, CPU) is None
    regions = window_regions((3, 4), (3, 4), (2, 2), (0, 0), True, CPU)
    assert [len(set(window.tolist())) for window in regions] == [1, 1, 2, 2]


def test_what_lies_beyond_an_images_own_padded_size_is_apart_from_it():
    alone = window_regions((4, 4), (4, 4), (4, 4), (2, 2), False, CPU)
    joint = window_regions((8, 8), (4, 4), (4, 4), (2, 2), False, CPU)
    same_alone = alone[0, :, None] == alone[0]
    # the four quarters of the image stand in four windows of the larger map, each apart from the rest
    for window in joint:
        own = (window != window.max()) & (window < 6) & (window % 3 != 2)
        assert own.sum() == 4
        assert not (window[own][:, None] == window[~own]).any()
    assert same_alone.sum() == 4 * 16


def test_regions_of_a_batch_are_shared_where_all_images_are_alike():
    assert batch_regions((8, 8), [(8, 8)] * 3, (4, 4), (2, 2), False, CPU).shape == (1, 4, 16)
    assert batch_regions((8, 8), [(8, 8), (3, 5)], (4, 4), (2, 2), False, CPU).shape == (2, 4, 16)
    assert batch_regions((8, 8), [(8, 8), (3, 5)], (4, 4), (0, 0), False, CPU) is None


def test_an_image_without_padding_has_one_region_beside_one_that_has():
    regions = batch_regions((8, 8), [(3, 5), (8, 8)], (4, 4), (0, 0), True, CPU)
    assert regions[0].unique().numel() > 1
    assert regions[1].unique().numel() == 1


def test_the_region_cache_is_bounded():
    for extent in range(1, 200):
        window_regions((extent, 9), (extent, 9), (4, 4), (2, 2), False, CPU)
        outside((200, 9), ((extent, 9),), CPU)
    assert window_regions.cache_info().currsize == window_regions.cache_info().maxsize == 64
    assert outside.cache_info().currsize <= 32


def test_zero_outside_keeps_the_image_and_removes_even_nan():
    x = torch.full((2, 3, 4, 1), torch.nan)
    x[0, :2, :3] = 1
    x[1] = 1
    zeroed = zero_outside(x, [(2, 3), (3, 4)])
    assert zeroed[0, ..., 0].tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert torch.equal(zeroed[1], x[1])


def test_zero_outside_leaves_full_maps_as_they_are():
    x = torch.randn(2, 3, 4, 1)
    assert zero_outside(x, None) is x
    assert zero_outside(x, [(3, 4), (3, 4)]) is x
