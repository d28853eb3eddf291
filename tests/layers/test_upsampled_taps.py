import pytest
import torch
import torch.nn.functional as F

from src.layers import upsampled_taps
from src.layers.upsampled_taps import chunks, seen, tap_rows, touched, upsampled_gradients
from tests.layers.nan_memory import nan_memory


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plainly(level, weight, size):
    return F.conv2d(F.interpolate(level, size=size, mode="bilinear", align_corners=False), weight, padding=1)


def test_taps_of_a_row_stand_beside_one_another():
    weight = randn(4, 2, 3, 3)
    rows = tap_rows(weight)
    assert rows.shape == (3, 2, 12)
    for row in range(3):
        for column in range(3):
            assert torch.equal(rows[row, :, 4 * column : 4 * column + 4], weight[:, :, row, column].t())


@pytest.mark.parametrize(("source", "size"), [(1, 1), (1, 9), (9, 1), (4, 16), (5, 13), (13, 5), (7, 7), (3, 100)])
def test_places_and_cells_that_meet(source, size):
    """What a cell changes after its resizing and a tap of one place, found with one hot cells."""
    hot = F.interpolate(torch.eye(source)[None], size=size, mode="linear", align_corners=False)[0] > 0  # (source, size)
    reach = F.max_pool1d(hot.float(), 3, 1, 1) > 0
    for first in range(source):
        for last in range(first + 1, source + 1):
            places = reach[first:last].any(0).nonzero().flatten().tolist()
            start, stop = touched(size, source, first, last)
            assert 0 <= start <= stop <= size
            assert not places or start <= places[0] <= places[-1] < stop
    for start in range(size):
        for stop in range(start + 1, size + 1):
            cells = reach[:, start:stop].any(1).nonzero().flatten().tolist()
            first, last = seen(size, source, start, stop)
            assert 0 <= first < last <= source
            assert first <= cells[0] <= cells[-1] < last


@pytest.mark.parametrize("strip", [1, 3, 50])
def test_chunks_add_to_any_rows(strip, monkeypatch):
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", 1)
    image, weight = randn(5, 6, 3), randn(4, 3, 3, 3, seed=1)
    result = torch.zeros(37, 23, 4, dtype=torch.float64)
    for chunk in chunks(image, tap_rows(weight), (37, 23)):
        for top in range(0, 37, strip):
            chunk.add_to(result[top : top + strip], top)
    expected = plainly(image.permute(2, 0, 1)[None], weight, (37, 23))[0].permute(1, 2, 0)
    assert torch.allclose(result, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("source", [(1, 1), (3, 4), (13, 2), (9, 15)])
@pytest.mark.parametrize("size", [(1, 1), (9, 15), (37, 5)])
@pytest.mark.parametrize("chunk_bytes", [1, 16 * 2**20])
def test_gradients_are_those_of_the_plain_way(source, size, chunk_bytes, monkeypatch):
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", chunk_bytes)
    level, weight = randn(2, 3, *source).requires_grad_(), randn(4, 3, 3, 3, seed=1).requires_grad_()
    gradient = randn(2, 4, *size, seed=2)
    expected = torch.autograd.grad(plainly(level, weight, size), (level, weight), gradient)
    with nan_memory(), torch.no_grad():
        found = upsampled_gradients(level, weight, gradient)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12 * max(1.0, other.abs().max().item()))
