import math

import pytest
import torch
import torch.nn.functional as F

from src.layers.bilinear import neighbours, resized_rows

AXES = [(1, 1), (1, 5), (5, 1), (2, 3), (3, 7), (4, 16), (7, 7), (13, 5), (5, 13), (31, 97), (97, 31), (12, 512)]
SIZES = [
    ((1, 1), (1, 1)),
    ((1, 1), (5, 7)),
    ((5, 7), (1, 1)),
    ((3, 4), (7, 9)),
    ((7, 5), (7, 5)),
    ((13, 11), (5, 17)),
    ((1, 9), (2, 31)),
    ((16, 16), (64, 64)),
]


def maps(size, dtype, channels=3):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, channels, *size, generator=generator, dtype=torch.float64).to(dtype)


def resized(image, size):
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False)


def image_of(maps):
    return maps[0].permute(1, 2, 0)


@pytest.mark.parametrize(("source", "target"), AXES)
def test_neighbours_are_those_of_the_centres_of_cells(source, target):
    lower, upper, share = neighbours(torch.arange(target), source, target, torch.float64)
    assert lower.dtype == upper.dtype == torch.int64
    assert share.dtype == torch.float64
    for place in range(target):
        centre = min(max((place + 0.5) * source / target - 0.5, 0), source - 1)
        made = dict.fromkeys(range(source), 0.0)
        made[int(lower[place])] += 1 - share[place].item()
        made[int(upper[place])] += share[place].item()
        expected = {cell: max(0.0, 1 - abs(cell - centre)) for cell in range(source)}
        assert all(made[cell] == pytest.approx(expected[cell], abs=1e-12) for cell in range(source))
        assert math.floor(centre) - 1 <= lower[place] <= upper[place] <= source - 1


@pytest.mark.parametrize(("source", "target"), AXES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1.2e-7), (torch.float64, 1e-14)])
def test_shares_are_rounded_as_torchs_are(source, target, dtype, tolerance):
    """An axis of one hot cells, resized, holds the shares themselves."""
    hot = torch.eye(source, dtype=dtype)[None, :, None]  # (1, source, 1, source)
    across = resized(hot, (1, target))[0, :, 0]  # (source, target)
    lower, upper, share = neighbours(torch.arange(target), source, target, dtype)
    made = torch.zeros(source, target, dtype=dtype)
    places = torch.arange(target)
    made.index_put_((lower, places), 1 - share, accumulate=True)
    made.index_put_((upper, places), share, accumulate=True)
    assert (made - across).abs().max() <= tolerance


@pytest.mark.parametrize(("source", "target"), AXES)
def test_some_places_are_as_in_all(source, target):
    every = neighbours(torch.arange(target), source, target, torch.float32)
    for start in range(target):
        some = neighbours(torch.arange(start, min(start + 3, target)), source, target, torch.float32)
        assert all(torch.equal(part, whole[start : start + 3]) for part, whole in zip(some, every, strict=True))


@pytest.mark.parametrize(("source", "target"), SIZES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 3e-7), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)],
)
def test_every_range_of_rows_is_torchs(source, target, dtype, tolerance):
    small = maps(source, dtype)
    precise = small.to(torch.promote_types(dtype, torch.float32))
    expected = image_of(resized(precise, target)).double()
    ranges = [(start, stop) for start in range(target[0]) for stop in range(start + 1, target[0] + 1)]
    for start, stop in ranges if len(ranges) < 200 else ranges[::97]:
        rows = resized_rows(image_of(small), target, start, stop)
        assert rows.shape == (stop - start, target[1], 3)
        assert rows.dtype == dtype
        assert (rows.double() - expected[start:stop]).abs().max() <= tolerance * small.abs().max()


@pytest.mark.parametrize(("source", "target"), SIZES)
def test_single_precision_differs_from_torchs_in_the_last_bits_only(source, target):
    small = maps(source, torch.float32)
    rows = resized_rows(image_of(small), target, 0, target[0])
    assert (rows - image_of(resized(small, target))).abs().max() <= 3e-7 * small.abs().max()


def test_a_map_of_the_same_size_is_itself():
    small = image_of(maps((7, 5), torch.float32))
    assert torch.equal(resized_rows(small, (7, 5), 0, 7), small)


@pytest.mark.parametrize("size", [(1, 4096), (4096, 1)])
def test_long_axes_keep_their_places(size):
    small = maps((size[0] // 4 or 1, size[1] // 4 or 1), torch.float32, channels=1)
    rows = resized_rows(image_of(small), size, 0, size[0])
    assert (rows - image_of(resized(small, size))).abs().max() <= 1e-6 * small.abs().max()
