"""Convolution with 3x3 kernels by the method that is fastest for its size; without autograd, see ``upsampled_conv``.

Shapes: B images, a map of H x W cells with C channels, O channels of the result; maps are stored channels last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight

from src.layers.size import Size
from src.layers.winograd import Tile, convolve_strip, kernel_gradient, plain_gradient, transformed_kernel

Numerics = Literal["exact", "fast"]
"""How far a result in float32 may be from the true one: about 1e-6 of the largest value with ``exact``; somewhat
further with ``fast``, where that is faster. See docs/numerics.md."""

_TILES = {"exact": Tile(4, 2), "fast": Tile(4, 4)}
_FEWEST_CHANNELS = {"exact": 256, "fast": 64}
_FEWEST_CELLS = 256
_STRIP_CELLS = 4096  # of a result, whose products a CPU's caches hold


def tile_for(numerics: Numerics, weight: Tensor, size: Size) -> Tile | None:
    """The tile that a convolution is computed in; None for a direct convolution.

    The rule, measured on a CPU with AVX2 in float32: a direct convolution wins below 64 channels in or out and below
    16 x 16 cells, and below 256 channels ``exact`` stays with it. On other devices and in half precision it is left
    to their libraries: not measured.

    Args:
        numerics: what counts more.
        weight: ``(O, C, 3, 3)``, of the type and on the device of the maps.
        size: height and width of the maps, in cells.
    """
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.float64):
        return None
    if min(weight.shape[:2]) < _FEWEST_CHANNELS[numerics] or not large_enough(size):
        return None
    return _TILES[numerics]


def large_enough(size: Size) -> bool:
    """Whether maps have cells enough for tiles; what is prepared for one such size serves all.

    Args:
        size: height and width of the maps, in cells.
    """
    return size[0] * size[1] >= _FEWEST_CELLS


@dataclass(frozen=True)
class Kernel:
    """A convolution's weight, prepared for maps that are ``large_enough``, or for those that are not.

    Args:
        weight: ``(O, C, 3, 3)`` for a direct convolution, the transformed kernel ``(R, S, C, O)`` for one in tiles.
        tile: outputs that are computed together; None for a direct convolution.
    """

    weight: Tensor
    tile: Tile | None

    @classmethod
    def prepared(cls, weight: Tensor, size: Size, numerics: Numerics) -> "Kernel":
        """The kernel of a weight ``(O, C, 3, 3)``.

        Args:
            weight: of the type and on the device of the maps.
            size: height and width of the maps, in cells.
            numerics: see ``Numerics``.
        """
        tile = tile_for(numerics, weight, size)
        if tile is None:
            return cls(weight.contiguous(memory_format=torch.channels_last), None)
        return cls(transformed_kernel(weight, tile), tile)

    def strip(self, rows: Tensor, above: bool, below: bool) -> Tensor:
        """The convolution of a strip, its left and right border padded with zeros.

        Args:
            rows: ``(n + 2, W, C)``, a row above and one below included.
            above: the row above is there; otherwise ``rows`` begin at the map's border.
            below: the row below is there.

        Returns:
            ``(n, W, O)``.
        """
        if self.tile is not None:
            return convolve_strip(rows, self.weight, self.tile, above, below)
        if not (above and below):
            rows = F.pad(rows, (0, 0, 0, 0, int(not above), int(not below)))
        return F.conv2d(rows.permute(2, 0, 1)[None], self.weight, padding=(0, 1))[0].permute(1, 2, 0).contiguous()

    def write(self, result: Tensor, maps: Tensor) -> None:
        """Writes the convolution of maps.

        Args:
            result: ``(B, H, W, O)``.
            maps: ``(B, C, H, W)``.
        """
        if self.tile is None:
            result.copy_(F.conv2d(maps, self.weight, padding=1).permute(0, 2, 3, 1))
            return
        for image, lines in zip(maps.permute(0, 2, 3, 1), result, strict=True):
            for start, stop, strip, above, below in strips(image, self.tile):
                lines[start:stop] = self.strip(strip, above, below)


def conv_gradients(
    maps: Tensor, weight: Tensor, gradient: Tensor, numerics: Numerics, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of maps and weight.

    Args:
        maps: what was convolved, ``(B, C, H, W)``.
        weight: ``(O, C, 3, 3)``.
        gradient: of the result, ``(B, O, H, W)``.
        numerics: see ``Numerics``.
        wanted: which of the two.
    """
    size = (maps.shape[2], maps.shape[3])
    tile = tile_for(numerics, weight, size)
    maps_gradient = weight_gradient = None
    if tile is None:
        if wanted[0]:
            maps_gradient = conv2d_input(maps.shape, weight, gradient, padding=1)
        if wanted[1]:
            weight_gradient = conv2d_weight(maps, weight.shape, gradient, padding=1)
        return maps_gradient, weight_gradient
    if wanted[0]:
        rows = gradient.new_empty(len(maps), *size, maps.shape[1])
        Kernel(transformed_kernel(weight.flip(2, 3).transpose(0, 1), tile), tile).write(rows, gradient)
        maps_gradient = rows.permute(0, 3, 1, 2)
    if wanted[1]:
        into = maps.new_zeros(tile.rows + 2, tile.columns + 2, maps.shape[1], gradient.shape[1])
        for image, lines in zip(maps.permute(0, 2, 3, 1), gradient.permute(0, 2, 3, 1), strict=True):
            for start, stop, strip, above, below in strips(image, tile):
                kernel_gradient(strip, lines[start:stop], tile, into, above, below)
        weight_gradient = plain_gradient(into, tile)
    return maps_gradient, weight_gradient


def strips(image: Tensor, tile: Tile) -> Iterator[tuple[int, int, Tensor, bool, bool]]:
    """Some rows of an image ``(H, W, C)`` at a time, with the row above and the one below.

    Args:
        image: ``(H, W, C)``.
        tile: outputs that are computed together.

    Yields:
        The first row, the row after the last one, the strip, and whether it has a row above and one below.
    """
    height, width = image.shape[:2]
    count = max(1, _STRIP_CELLS // (width * tile.rows)) * tile.rows
    for start in range(0, height, count):
        stop = min(start + count, height)
        yield start, stop, image[max(start - 1, 0) : stop + 1], start > 0, stop < height
