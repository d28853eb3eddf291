"""Convolution with 3x3 kernels by Winograd's minimal filtering, on strips of rows of channels-last maps.

Outputs are computed in tiles: a tile of r x c outputs takes (r + 2) * (c + 2) products for each pair of channels, where
the plain way takes 9 * r * c. The transforms before and after are small constant matrices.

Shapes: a strip has n rows of W cells with C channels, and a row above and below it; O channels come out. A tile has
R = r + 2 by S = c + 2 products; T tiles cover the strip, one more in each row of tiles than there are outputs for, so
that tiles follow one another at one stride.
"""

from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from src.layers.geometry_cache import cached_geometry


class Tile(NamedTuple):
    """Outputs that are computed together.

    Attributes:
        rows: number of rows, 2, 4 or 6.
        columns: number of columns, 2, 4 or 6.
    """

    rows: int
    columns: int


_POINTS: dict[int, tuple[Fraction | int, ...]] = {
    2: (0, 1, -1),
    4: (0, 1, -1, Fraction(1, 2), -2),
    6: (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2)),
}
"""Where polynomials are evaluated, for each number of outputs. Of three sets tried for 4, these round least."""


class Transforms(NamedTuple):
    """The matrices of one axis, for m outputs and k = m + 2 products.

    Attributes:
        source: of the input, ``(k, k)``.
        kernel: of the kernel, ``(k, 3)``.
        result: of the products, ``(m, k)``.
    """

    source: Tensor
    kernel: Tensor
    result: Tensor


@cached_geometry(maxsize=16)
def transforms(outputs: int, dtype: torch.dtype, device: torch.device) -> Transforms:
    """The matrices that make ``outputs`` neighbouring outputs of a kernel of 3 with the fewest products.

    Args:
        outputs: number of outputs, 2, 4 or 6.
        dtype: floating type of the matrices.
        device: where they live.

    Source: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional
    Neural Networks", 2016. The points for 4 outputs are those of Barabasz et al., "Error Analysis and
    Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020.
    """
    points = [Fraction(point) for point in _POINTS[outputs]]
    last = len(points)
    source = [[*_with_roots(points[:i] + points[i + 1 :]), Fraction(0)] for i in range(last)] + [_with_roots(points)]
    kernel = []
    for i, point in enumerate(points):
        spread = Fraction(1)
        for other in points[:i] + points[i + 1 :]:
            spread *= point - other
        kernel.append([point**power / spread for power in range(3)])
    kernel.append([Fraction(0), Fraction(0), Fraction(1)])
    result = [[point**power for point in points] + [Fraction(int(power == outputs - 1))] for power in range(outputs)]
    made = ([[float(value) for value in row] for row in matrix] for matrix in (source, kernel, result))
    return Transforms(*(torch.tensor(matrix, dtype=dtype, device=device) for matrix in made))


def _with_roots(roots: list[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [high - root * low for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients


def _kernel_matrix(tile: Tile, like: Tensor) -> Tensor:
    """The transform ``(R * S, 9)`` of a kernel's nine weights."""
    rows, columns = (transforms(extent, like.dtype, like.device).kernel for extent in tile)
    return torch.kron(rows, columns)


def transformed_kernel(weight: Tensor, tile: Tile) -> Tensor:
    """A convolution's weight as the products want it.

    Args:
        weight: ``(O, C, 3, 3)``.
        tile: outputs that are computed together.

    Returns:
        Kernels ``(R, S, C, O)``.
    """
    taps = weight.permute(2, 3, 1, 0).reshape(9, -1)  # (9, C * O)
    kernel = torch.mm(_kernel_matrix(tile, weight), taps)
    return kernel.view(tile.rows + 2, tile.columns + 2, weight.shape[1], weight.shape[0])


def plain_gradient(kernel_gradient: Tensor, tile: Tile) -> Tensor:
    """The gradient ``(O, C, 3, 3)`` of a weight from that of its transformed kernel ``(R, S, C, O)``.

    Args:
        kernel_gradient: ``(R, S, C, O)``.
        tile: outputs that are computed together.
    """
    channels, outputs = kernel_gradient.shape[2:]
    taps = torch.mm(_kernel_matrix(tile, kernel_gradient).t(), kernel_gradient.flatten(2).flatten(0, 1))
    return taps.view(3, 3, channels, outputs).permute(3, 2, 0, 1)


def convolve_strip(strip: Tensor, kernel: Tensor, tile: Tile, above: bool = True, below: bool = True) -> Tensor:
    """The convolution of a strip, its left and right border padded with zeros.

    Args:
        strip: ``(n + 2, W, C)``, a row above and one below included.
        kernel: transformed kernel ``(R, S, C, O)``.
        tile: outputs that are computed together.
        above: the row above is there; otherwise ``strip`` begins at the map's border, beyond which there are zeros.
        below: the row below is there.

    Returns:
        ``(n, W, O)``, a view of somewhat more.
    """
    source = _Source(strip, tile, above, below)
    columns = transforms(tile.columns, strip.dtype, strip.device).result.expand(source.tiles, -1, -1)
    outputs = kernel.shape[-1]
    products = strip.new_empty(tile.columns + 2, source.tiles, outputs)
    partial = strip.new_empty(tile.rows + 2, source.tiles, tile.columns, outputs)
    for i in range(tile.rows + 2):
        torch.bmm(source.row(i).transpose(0, 1), kernel[i], out=products)
        torch.bmm(columns, products.transpose(0, 1), out=partial[i])
    partial = partial.view(tile.rows + 2, source.lines, -1)  # (R, lines, padded W * O)
    rows = transforms(tile.rows, strip.dtype, strip.device).result
    result = strip.new_empty(source.lines, tile.rows, partial.shape[-1])
    for line in range(source.lines):
        torch.mm(rows, partial[:, line], out=result[line])
    return result.view(source.lines * tile.rows, -1, outputs)[: source.count, : strip.shape[1]]


def kernel_gradient(
    strip: Tensor, gradient: Tensor, tile: Tile, into: Tensor, above: bool = True, below: bool = True
) -> None:
    """Adds the gradient of the transformed kernel to ``into``.

    Args:
        strip: what was convolved, as in ``convolve_strip``.
        gradient: gradient of the result, ``(n, W, O)``.
        tile: outputs that are computed together.
        into: ``(R, S, C, O)``.
        above: the row above is there.
        below: the row below is there.
    """
    source, results = _Source(strip, tile, above, below), _result_tiles(gradient, tile)
    for i in range(len(into)):
        into[i].baddbmm_(source.row(i).permute(1, 2, 0), results[i].transpose(0, 1))


class _Source:
    """The transformed tiles of a strip, a row of products at a time.

    Args:
        strip: as in ``convolve_strip``.
        tile: outputs that are computed together.
        above: the row above is there.
        below: the row below is there.

    Attributes:
        count: number of rows n.
        lines: number of rows of tiles.
        tiles: number of tiles T.
    """

    def __init__(self, strip: Tensor, tile: Tile, above: bool, below: bool) -> None:
        height, width, channels = strip.shape
        self.count = height - above - below
        self.lines = -(-self.count // tile.rows)
        per_line = -(-width // tile.columns) + 1
        self.tiles = self.lines * per_line
        rows = transforms(tile.rows, strip.dtype, strip.device).source
        self._columns = transforms(tile.columns, strip.dtype, strip.device).source.expand(self.tiles, -1, -1)
        padded = strip.new_zeros(self.lines * tile.rows + 2, per_line * tile.columns, channels)
        padded[1 - above : 1 - above + height, 1 : width + 1] = strip
        cells = per_line * tile.columns * channels
        partial = strip.new_empty(len(rows) * self.lines * cells + 2 * channels)
        partial[-2 * channels :] = 0  # the last tile reaches beyond the rows
        by_line = partial[: -2 * channels].view(len(rows), self.lines, cells)
        for line in range(self.lines):
            start = line * tile.rows
            torch.mm(rows, padded[start : start + len(rows)].view(len(rows), cells), out=by_line[:, line])
        shape, strides = (self.tiles, tile.columns + 2, channels), (tile.columns * channels, channels, 1)
        self._overlapping = [partial.as_strided(shape, strides, i * self.lines * cells) for i in range(len(rows))]
        self._row = strip.new_empty(shape)

    def row(self, i: int) -> Tensor:
        """The tiles ``(T, S, C)`` of the i-th row of products; the next call writes over them.

        Args:
            i: 0..R-1.
        """
        return torch.bmm(self._columns, self._overlapping[i], out=self._row)


def _result_tiles(gradient: Tensor, tile: Tile) -> Tensor:
    """What the gradient ``(n, W, O)`` of a result is for its products, ``(R, T, S, O)``."""
    count, width, outputs = gradient.shape
    lines, per_line = -(-count // tile.rows), -(-width // tile.columns) + 1
    rows, columns = (transforms(extent, gradient.dtype, gradient.device).result.t() for extent in tile)
    padded = gradient.new_zeros(lines * tile.rows, per_line * tile.columns, outputs)
    padded[:count, :width] = gradient
    padded = padded.view(lines, tile.rows, -1)
    partial = gradient.new_empty(len(rows), lines, padded.shape[-1])
    for line in range(lines):
        torch.mm(rows, padded[line], out=partial[:, line])
    tiles = partial.view(-1, tile.columns, outputs)
    return torch.bmm(columns.expand(len(tiles), -1, -1), tiles).view(len(rows), lines * per_line, -1, outputs)
