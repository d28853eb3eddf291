import pytest
import torch
import torch.nn.functional as F

from src.layers import upsampled_taps
from src.layers.conv3x3 import Kernel
from src.layers.strips import UpsampledStrips, convolved, strip_rows
from src.layers.upsampled_conv import upsampled_conv
from src.layers.upsampled_taps import tap_rows
from src.layers.winograd import Tile, transformed_kernel
from tests.layers.nan_memory import nan_memory

TILES = [None, Tile(2, 2), Tile(2, 4), Tile(4, 2), Tile(4, 4)]


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kernel_of(weight, tile):
    if tile is None:
        return Kernel(weight.contiguous(memory_format=torch.channels_last), None)
    return Kernel(transformed_kernel(weight, tile), tile)


def cut(image, rows):
    """The image in strips, the numbers of rows in turn."""
    start, turn = 0, 0
    while start < len(image):
        yield image[start : start + rows[turn % len(rows)]].clone()
        start, turn = start + rows[turn % len(rows)], turn + 1


def whole(image, weight):
    return F.conv2d(image.permute(2, 0, 1)[None], weight, padding=1)[0].permute(1, 2, 0)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 3), (7, 5), (8, 8), (23, 6)])
@pytest.mark.parametrize("rows", [[1], [2], [3], [4], [100], [1, 4, 2], [8, 1], [1, 1, 9]])
def test_any_strips_give_the_convolved_map(tile, size, rows):
    image, weight = randn(*size, 3), randn(4, 3, 3, 3, seed=1)
    with nan_memory():
        result = list(convolved(cut(image, rows), kernel_of(weight, tile)))
    assert all(len(strip) > 0 for strip in result)
    assert torch.allclose(torch.cat(result), whole(image, weight), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tile", TILES)
def test_all_strips_but_the_last_have_whole_tiles(tile):
    image, weight = randn(23, 5, 3), randn(4, 3, 3, 3, seed=1)
    *others, last = (len(strip) for strip in convolved(cut(image, [5, 1, 3]), kernel_of(weight, tile)))
    multiple = 1 if tile is None else tile.rows
    assert all(count % multiple == 0 for count in others)
    assert 0 < last <= 23


@pytest.mark.parametrize("tiles", [(None, None), (Tile(4, 2), Tile(4, 2)), (Tile(4, 4), None), (None, Tile(2, 4))])
@pytest.mark.parametrize("rows", [[1], [3, 8], [50]])
def test_convolutions_follow_one_another(tiles, rows):
    image, first, second = randn(19, 6, 3), randn(4, 3, 3, 3, seed=1), randn(2, 4, 3, 3, seed=2)
    strips = convolved(cut(image, rows), kernel_of(first, tiles[0]))
    changed = (strip.mul_(2).relu_() for strip in strips)
    result = torch.cat([strip.clone() for strip in convolved(changed, kernel_of(second, tiles[1]))])
    expected = whole((2 * whole(image, first)).relu(), second)
    assert torch.allclose(result, expected, rtol=0, atol=1e-11)


def test_strips_are_taken_when_they_are_wanted():
    taken = []

    def strips():
        for strip in cut(randn(40, 5, 3), [4]):
            taken.append(len(strip))
            yield strip

    coming = convolved(strips(), kernel_of(randn(4, 3, 3, 3), None))
    next(coming)
    assert len(taken) == 1


def test_what_came_in_is_left_as_it_is():
    image, weight = randn(12, 5, 3), randn(4, 3, 3, 3, seed=1)
    strips = list(cut(image, [3]))
    for strip in convolved(iter(strips), kernel_of(weight, None)):
        strip.zero_()
    assert torch.equal(torch.cat(strips), image)


@pytest.mark.parametrize(
    ("source", "size"),
    [
        ((1, 1), (1, 1)),
        ((1, 1), (7, 5)),
        ((3, 4), (9, 15)),
        ((5, 1), (23, 1)),
        ((1, 5), (1, 23)),
        ((13, 11), (5, 7)),
        ((9, 15), (9, 15)),
        ((7, 9), (29, 40)),
    ],
)
@pytest.mark.parametrize("rows", [[1], [4], [3, 1, 8], [100]])
@pytest.mark.parametrize("chunk_bytes", [1, 16 * 2**20])
def test_upsampled_strips_are_the_upsampled_convolution(source, size, rows, chunk_bytes, monkeypatch):
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", chunk_bytes)
    image, weight = randn(*source, 3), randn(4, 3, 3, 3, seed=1)
    base = randn(*size, 4, seed=2)
    upsampled = UpsampledStrips(image, tap_rows(weight), size)
    strips, top = list(cut(base, rows)), 0
    for strip in strips:
        upsampled.add_to(strip, top)
        top += len(strip)
    maps = image.permute(2, 0, 1)[None]
    expected = F.conv2d(F.interpolate(maps, size=size, mode="bilinear", align_corners=False), weight, padding=1)
    added = torch.cat(strips) - base
    assert torch.allclose(added, expected[0].permute(1, 2, 0), rtol=0, atol=1e-12)
    assert torch.allclose(added, upsampled_conv([maps], weight, size)[0].permute(1, 2, 0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("width", [1, 5, 8])
def test_upsampled_strips_add_to_what_a_convolution_gave(tile, width):
    """The convolution's strips may be views of more than they show."""
    image, small, weight = randn(13, width, 3), randn(4, 2, 3, seed=1), randn(4, 6, 3, 3, seed=2)
    upsampled = UpsampledStrips(small, tap_rows(weight[:, 3:]), (13, width))
    strips, top = [], 0
    for strip in convolved(cut(image, [1, 5]), kernel_of(weight[:, :3], tile)):
        upsampled.add_to(strip, top)
        strips.append(strip)
        top += len(strip)
    maps = [image.permute(2, 0, 1)[None], small.permute(2, 0, 1)[None]]
    expected = upsampled_conv(maps, weight, (13, width))[0].permute(1, 2, 0)
    assert torch.allclose(torch.cat(strips), expected, rtol=0, atol=1e-12)


def test_products_are_held_no_longer_than_they_are_wanted(monkeypatch):
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", 1)
    upsampled = UpsampledStrips(randn(64, 3, 2), tap_rows(randn(2, 2, 3, 3)), (256, 12))
    held = []
    for top in range(0, 256, 4):
        upsampled.add_to(torch.zeros(4, 12, 2, dtype=torch.float64), top)
        held.append(len(upsampled._live))
    assert max(held) <= 4


@pytest.mark.parametrize(
    ("size", "channels", "dtype", "expected"),
    [
        ((128, 128), 512, torch.float32, 32),
        ((128, 128), 512, torch.float64, 16),
        ((128, 128), 512, torch.bfloat16, 64),
        ((128, 4096), 512, torch.float32, 8),
        ((5, 4096), 512, torch.float32, 5),
        ((1, 1), 1, torch.float32, 1),
        ((100, 10), 8, torch.float32, 100),
        ((400, 300), 96, torch.float32, 72),
    ],
)
def test_rows_of_a_strip_fit_the_caches(size, channels, dtype, expected):
    assert strip_rows(size, channels, torch.empty(0, dtype=dtype)) == expected
