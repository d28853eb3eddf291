from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F

from src.layers.winograd import (
    Tile,
    convolve_strip,
    kernel_gradient,
    plain_gradient,
    transformed_kernel,
    transforms,
)
from tests.layers.nan_memory import nan_memory

TILES = [Tile(2, 2), Tile(2, 4), Tile(4, 2), Tile(4, 4)]
SIZES = [(1, 1), (1, 7), (7, 1), (2, 2), (1, 13), (13, 1), (3, 5), (4, 4), (11, 7), (8, 12), (17, 19)]


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def cell_by_cell(strip, weight):
    """The convolution of a strip ``(n + 2, W, C)`` with ``(O, C, 3, 3)``, one cell after the other."""
    count, width = strip.shape[0] - 2, strip.shape[1]
    result = strip.new_zeros(count, width, len(weight))
    for row in range(count):
        for column in range(width):
            for down in range(3):
                for right in range(3):
                    if 0 <= column + right - 1 < width:
                        result[row, column] += weight[:, :, down, right] @ strip[row + down, column + right - 1]
    return result


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tile", TILES)
def test_tiles_give_the_convolution(tile, size):
    strip, weight = randn(size[0] + 2, size[1], 3), randn(5, 3, 3, 3, seed=1)
    result = convolve_strip(strip, transformed_kernel(weight, tile), tile)
    assert result.shape == (*size, 5)
    assert torch.allclose(result, cell_by_cell(strip, weight), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tile", TILES)
def test_gradient_of_the_kernel_is_that_of_the_convolution(tile, size):
    strip, gradient = randn(size[0] + 2, size[1], 3), randn(*size, 5, seed=2)
    weight = randn(5, 3, 3, 3, seed=1).requires_grad_()
    (expected,) = torch.autograd.grad((cell_by_cell(strip, weight) * gradient).sum(), weight)
    into = torch.zeros(tile.rows + 2, tile.columns + 2, 3, 5, dtype=torch.float64)
    kernel_gradient(strip, gradient, tile, into)
    assert torch.allclose(plain_gradient(into, tile), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(("above", "below"), [(False, True), (True, False), (False, False)])
def test_beyond_the_border_there_are_zeros(tile, size, above, below):
    strip, gradient = randn(size[0] + above + below, size[1], 3), randn(*size, 5, seed=2)
    kernel = transformed_kernel(randn(5, 3, 3, 3, seed=1), tile)
    padded = F.pad(strip, (0, 0, 0, 0, int(not above), int(not below)))
    into, expected = torch.zeros_like(kernel), torch.zeros_like(kernel)
    kernel_gradient(padded, gradient, tile, expected)
    with nan_memory():
        result = convolve_strip(strip, kernel, tile, above, below)
        kernel_gradient(strip, gradient, tile, into, above, below)
    assert torch.equal(result, convolve_strip(padded, kernel, tile))
    assert torch.equal(into, expected)


@pytest.mark.parametrize("tile", TILES)
def test_gradients_of_strips_add_up(tile):
    strip, gradient = randn(9, 5, 3), randn(7, 5, 4, seed=2)
    once = torch.zeros(tile.rows + 2, tile.columns + 2, 3, 4, dtype=torch.float64)
    kernel_gradient(strip, gradient, tile, once)
    twice = once.clone()
    kernel_gradient(strip, gradient, tile, twice)
    assert torch.allclose(twice, 2 * once, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("tile", TILES)
def test_gradient_of_the_kernel_is_the_transpose_of_its_transform(tile):
    weight = randn(2, 3, 3, 3).requires_grad_()
    kernel = transformed_kernel(weight, tile)
    assert kernel.shape == (tile.rows + 2, tile.columns + 2, 3, 2)
    gradient = randn(*kernel.shape, seed=1)
    (expected,) = torch.autograd.grad(kernel, weight, gradient)
    assert torch.allclose(plain_gradient(gradient, tile), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("outputs", "points"), [(2, "0 1 -1"), (4, "0 1 -1 1/2 -2")])
def test_transforms_are_lagranges_interpolation(outputs, points):
    """A product of polynomials is found from its values at the points and its leading coefficient.

    A correlation is the transpose of such a product: the input's transform is that of the interpolation.
    """
    points = [Fraction(point) for point in points.split()]
    source, kernel, result = (
        [[Fraction(value).limit_denominator(10_000) for value in row] for row in matrix.tolist()]
        for matrix in transforms(outputs, torch.float64, torch.device("cpu"))
    )
    for i, point in enumerate(points):
        others = [other for other in points if other != point]
        for place in (*points, Fraction(3), Fraction(-7, 2)):
            product, spread = Fraction(1), Fraction(1)
            for other in others:
                product, spread = product * (place - other), spread * (point - other)
            assert sum(value * place**power for power, value in enumerate(source[i])) == product
        assert kernel[i] == [point**power / spread for power in range(3)]
    for place in (*points, Fraction(3), Fraction(-7, 2)):
        product = Fraction(1)
        for point in points:
            product *= place - point
        assert sum(value * place**power for power, value in enumerate(source[-1])) == product
    assert kernel[-1] == [0, 0, 1]
    rows = [[point**power for point in points] + [Fraction(int(power == outputs - 1))] for power in range(outputs)]
    assert result == rows


@pytest.mark.parametrize("outputs", [2, 4])
def test_transforms_give_a_correlation_exactly_in_fractions(outputs):
    source, kernel, result = (
        [[Fraction(value).limit_denominator(10_000) for value in row] for row in matrix.tolist()]
        for matrix in transforms(outputs, torch.float64, torch.device("cpu"))
    )
    cells, taps = [Fraction(3 * i * i - 7, i + 1) for i in range(outputs + 2)], [Fraction(2), Fraction(-1, 3), 5]
    products = [
        sum(a * b for a, b in zip(left, cells, strict=True)) * sum(a * b for a, b in zip(right, taps, strict=True))
        for left, right in zip(source, kernel, strict=True)
    ]
    for place, row in enumerate(result):
        made = sum(a * b for a, b in zip(row, products, strict=True))
        assert made == sum(taps[tap] * cells[place + tap] for tap in range(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transforms_have_the_type_that_was_asked_for(dtype):
    assert {matrix.dtype for matrix in transforms(4, dtype, torch.device("cpu"))} == {dtype}
    assert [tuple(matrix.shape) for matrix in transforms(4, dtype, torch.device("cpu"))] == [(6, 6), (6, 3), (4, 6)]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("row", [0, 1, 5, 9, 17, 18])
def test_a_row_of_nan_stays_within_reach_of_its_tiles(tile, row):
    strip, weight = randn(19, 6, 3), randn(4, 3, 3, 3, seed=1)
    expected = cell_by_cell(strip, weight)
    strip[row] = float("nan")
    result = convolve_strip(strip, transformed_kernel(weight, tile), tile)
    for line in range(17):
        first = line // tile.rows * tile.rows
        if not first <= row < first + tile.rows + 2:
            assert torch.allclose(result[line], expected[line], rtol=0, atol=1e-12)
        if line <= row <= line + 2:
            assert result[line].isnan().all()


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("column", [0, 5, 10])
def test_a_column_of_nan_stays_within_reach_of_its_tiles(tile, column):
    strip, weight = randn(6, 11, 3), randn(4, 3, 3, 3, seed=1)
    expected = cell_by_cell(strip, weight)
    strip[:, column] = float("nan")
    result = convolve_strip(strip, transformed_kernel(weight, tile), tile)
    for place in range(11):
        first = place // tile.columns * tile.columns - 1
        if not first <= column < first + tile.columns + 2:
            assert torch.allclose(result[:, place], expected[:, place], rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tile", TILES)
def test_what_memory_held_before_does_not_enter(tile, size):
    strip, weight, gradient = randn(size[0] + 2, size[1], 3), randn(5, 3, 3, 3, seed=1), randn(*size, 5, seed=2)
    kernel = transformed_kernel(weight, tile)
    expected, into = convolve_strip(strip, kernel, tile), torch.zeros_like(kernel)
    with nan_memory():
        assert torch.equal(convolve_strip(strip, kernel, tile), expected)
        kernel_gradient(strip, gradient, tile, into)
    expected_into = torch.zeros_like(kernel)
    kernel_gradient(strip, gradient, tile, expected_into)
    assert torch.equal(into, expected_into)


@pytest.mark.parametrize("tile", TILES)
def test_single_precision_is_close(tile):
    strip, weight = randn(11, 13, 32), randn(16, 32, 3, 3, seed=1)
    expected = F.conv2d(strip.permute(2, 0, 1)[None], weight, padding=(0, 1))[0].permute(1, 2, 0)
    result = convolve_strip(strip.float(), transformed_kernel(weight.float(), tile), tile)
    assert result.dtype == torch.float32
    assert (result - expected).abs().max() < 1e-5 * expected.abs().max()
