import itertools

import pytest
import torch
import torch.nn.functional as F

from src.layers.conv3x3 import Kernel, conv_gradients, strips, tile_for
from src.layers.winograd import Tile, transformed_kernel
from tests.layers.nan_memory import nan_memory

SIZES = [(16, 16), (1, 257), (257, 1), (17, 19), (31, 9)]


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_convolutions_on_a_cpu_are_done_in_tiles(dtype):
    weight = torch.empty(64, 64, 3, 3, dtype=dtype)
    assert tile_for("exact", torch.empty(256, 256, 3, 3, dtype=dtype), (16, 16)) == Tile(4, 2)
    assert tile_for("exact", torch.empty(256, 255, 3, 3, dtype=dtype), (16, 16)) is None
    assert tile_for("fast", weight, (16, 16)) == Tile(4, 4)
    assert tile_for("fast", weight, (1, 256)) == Tile(4, 4)


@pytest.mark.parametrize(
    ("shape", "size", "options"),
    [
        ((63, 64), (16, 16), {}),
        ((64, 63), (16, 16), {}),
        ((512, 512), (15, 17), {}),
        ((512, 512), (1, 1), {}),
        ((512, 512), (64, 64), {"dtype": torch.bfloat16}),
        ((512, 512), (64, 64), {"dtype": torch.float16}),
        ((512, 512), (64, 64), {"device": "meta"}),
    ],
)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_all_others_are_left_to_torch(shape, size, options, numerics):
    assert tile_for(numerics, torch.empty(*shape, 3, 3, **options), size) is None


@pytest.mark.parametrize("channels", [(64, 64), (65, 80), (5, 7), (1, 1)])
@pytest.mark.parametrize("size", [*SIZES, (1, 1), (2, 3)])
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_maps_are_convolved_by_either_method(channels, size, numerics):
    maps, weight = randn(2, channels[0], *size), randn(channels[1], channels[0], 3, 3, seed=1)
    expected = F.conv2d(maps, weight, padding=1)
    kernel = Kernel.prepared(weight, size, numerics)
    assert kernel.tile == tile_for(numerics, weight, size)
    with nan_memory():
        result = torch.empty(2, *size, channels[1], dtype=torch.float64)
        kernel.write(result, maps)
    assert torch.allclose(result.permute(0, 3, 1, 2), expected, rtol=0, atol=1e-12 * expected.abs().max().item())


@pytest.mark.parametrize("tile", [None, Tile(2, 2), Tile(2, 4), Tile(4, 2), Tile(4, 4)])
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (7, 5), (8, 8)])
@pytest.mark.parametrize("channels", [(3, 4), (1, 4), (3, 1), (1, 1)])
def test_a_strip_is_convolved_by_either_method(tile, size, channels):
    rows, weight = randn(size[0] + 2, size[1], channels[0]), randn(channels[1], channels[0], 3, 3, seed=1)
    kernel = Kernel(weight if tile is None else transformed_kernel(weight, tile), tile)
    for above, below in itertools.product([True, False], repeat=2):
        padded = F.pad(rows, (0, 0, 0, 0, int(not above), int(not below)))
        expected = F.conv2d(padded.permute(2, 0, 1)[None], weight, padding=(0, 1))[0].permute(1, 2, 0)
        with nan_memory():
            assert torch.allclose(kernel.strip(rows, above, below), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(17, 19), (5, 3), (1, 1), (1, 300)])
@pytest.mark.parametrize("channels", [(64, 65), (3, 4)])
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
def test_gradients_are_those_that_are_wanted(size, channels, numerics, wanted):
    maps = randn(2, channels[0], *size).requires_grad_()
    weight = randn(channels[1], channels[0], 3, 3, seed=1).requires_grad_()
    gradient = randn(2, channels[1], *size, seed=2)
    expected = torch.autograd.grad(F.conv2d(maps, weight, padding=1), (maps, weight), gradient)
    with nan_memory():
        found = conv_gradients(maps.detach(), weight.detach(), gradient, numerics, wanted)
    for result, true, needed in zip(found, expected, wanted, strict=True):
        assert (result is not None) == needed
        if result is not None:
            assert torch.allclose(result, true, rtol=0, atol=1e-12 * true.abs().max().item())


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_do_not_depend_on_the_layout_in_memory(layout):
    maps, weight = randn(2, 64, 17, 19), randn(64, 64, 3, 3, seed=1)
    gradient = randn(2, 64, 17, 19, seed=2)
    expected = conv_gradients(maps, weight, gradient, "exact", (True, True))
    stored = [tensor.to(memory_format=layout) for tensor in (maps, weight, gradient)]
    found = conv_gradients(*stored, "exact", (True, True))
    assert all(torch.allclose(a, b, rtol=0, atol=1e-11) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("tile", [Tile(2, 2), Tile(4, 4)])
@pytest.mark.parametrize("cells", [1, 40, 4096])
@pytest.mark.parametrize("size", [(1, 1), (13, 5), (8, 8), (3, 70)])
def test_strips_of_an_image_cover_each_row_once_with_its_neighbours(tile, cells, size, monkeypatch):
    monkeypatch.setattr("src.layers.conv3x3._STRIP_CELLS", cells)
    image = randn(*size, 2)
    padded = F.pad(image, (0, 0, 0, 0, 1, 1))
    rows = []
    for start, stop, strip, above, below in strips(image, tile):
        assert (above, below) == (start > 0, stop < size[0])
        assert torch.equal(F.pad(strip, (0, 0, 0, 0, int(not above), int(not below))), padded[start : stop + 2])
        assert start % tile.rows == 0
        rows += range(start, stop)
    assert rows == list(range(size[0]))


@pytest.mark.parametrize("cells", [1, 100])
def test_results_do_not_depend_on_the_strips(cells, monkeypatch):
    maps, weight, gradient = randn(2, 64, 17, 19), randn(64, 64, 3, 3, seed=1), randn(2, 64, 17, 19, seed=2)
    expected = conv_gradients(maps, weight, gradient, "exact", (True, True))
    monkeypatch.setattr("src.layers.conv3x3._STRIP_CELLS", cells)
    found = conv_gradients(maps, weight, gradient, "exact", (True, True))
    assert all(torch.allclose(a, b, rtol=0, atol=1e-11) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("channels", [256, 512])
def test_single_precision_errors_of_a_rectified_map(channels):
    """As shares of the largest value: 1e-5 is asked of ``exact``, 1e-4 of ``fast``."""
    maps, weight = randn(1, channels, 32, 32).relu(), randn(256, channels, 3, 3, seed=1)
    expected = F.conv2d(maps, weight, padding=1).permute(0, 2, 3, 1)
    errors = {}
    for numerics in ("exact", "fast"):
        result = torch.empty(1, 32, 32, 256)
        Kernel.prepared(weight.float(), (32, 32), numerics).write(result, maps.float())
        errors[numerics] = ((result.double() - expected).abs().max() / expected.abs().max()).item()
    assert errors["exact"] < 3e-6
    assert errors["exact"] < errors["fast"] < 1e-5
