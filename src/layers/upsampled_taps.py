"""What the taps of a 3x3 kernel give of a map that is upsampled bilinearly, without making that map.

Upsampling is linear and so is each tap of a kernel: the convolution is the sum over the nine taps of the upsampled and
shifted products of the small map with the tap's weights. The products are taken at the small size, and upsampling with
its shift is one constant matrix for each axis, whose rows are zero where a tap reaches beyond the border. The matrices
are narrow bands and are used in pieces, so that the work grows with the number of cells alone.

Shapes: a small map of h x w cells with C channels; a result of H x W cells with O channels, a strip of it has n rows. A
chunk is some rows of the small map, a block some columns of the result.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from src.layers.bilinear import neighbours
from src.layers.geometry_cache import cached_geometry
from src.layers.size import Size

_CHUNK_BYTES = 16 * 2**20  # products held at a time, measured on a CPU
_CPU_BLOCK, _DEVICE_BLOCK = 32, 128  # rows and columns that one constant matrix makes; the second is not measured


def tap_rows(weight: Tensor) -> Tensor:
    """A weight ``(O, C, 3, 3)`` as ``(3, C, 3 * O)``, by rows of taps; the columns of taps stand beside one another."""
    return weight.permute(2, 1, 3, 0).reshape(3, weight.shape[1], -1)


def chunks(image: Tensor, kernel: Tensor, size: Size) -> Iterator["Chunk"]:
    """The products of an image's map with a kernel, some rows at a time from top to bottom.

    Args:
        image: the small map, ``(h, w, C)``.
        kernel: ``(3, C, 3 * O)``, see ``tap_rows``.
        size: height and width of the result, in cells.
    """
    for start, stop in _chunk_rows(image.shape, kernel, size[0]):
        yield Chunk(image, kernel, size, start, stop)


def _chunk_rows(shape: Sequence[int], kernel: Tensor, height: int) -> list[tuple[int, int]]:
    row_bytes = 3 * shape[1] * kernel.shape[-1] * kernel.element_size()
    enough = max(8, -(-_block(kernel) * shape[0] // height))  # more would meet more zeros in the constant matrices
    count = max(1, min(_CHUNK_BYTES // row_bytes, enough))
    return [(start, min(start + count, shape[0])) for start in range(0, shape[0], count)]


class Chunk:
    """What some rows of a small map give to the result.

    Args:
        image: the small map, ``(h, w, C)``.
        kernel: ``(3, C, 3 * O)``, see ``tap_rows``.
        size: height and width of the result, in cells.
        start: first row of the small map.
        stop: row after the last one.

    Attributes:
        touched: first row of the result to which it gives something, and the row after the last one.
    """

    def __init__(self, image: Tensor, kernel: Tensor, size: Size, start: int, stop: int) -> None:
        self.size = size
        self.rows = (image.shape[0], start, stop)
        self.touched = touched(size[0], *self.rows)
        cells = image[start:stop].reshape(-1, image.shape[-1])
        products = cells.new_empty(3, len(cells), kernel.shape[-1])
        for tap in range(3):
            torch.mm(cells, kernel[tap], out=products[tap])
        products = products.view(3 * (stop - start), image.shape[1] * 3, -1)  # (3 n, 3 w, O)
        self.outputs = products.shape[-1]
        self.blocks = []  # for some columns of the result, upsampled across: (3 n, columns * O)
        for left, right in _blocks(0, size[1], cells):
            first, last = seen(size[1], image.shape[1], left, right)
            across = _weights(size[1], image.shape[1], left, right, first, last, cells.dtype, cells.device)
            block = torch.bmm(across.flatten(1).expand(len(products), -1, -1), products[:, 3 * first : 3 * last])
            self.blocks.append((left, right, block.view(len(products), -1)))

    def add_to(self, strip: Tensor, top: int) -> None:
        """Adds its part to some rows of the result.

        Args:
            strip: rows of the result, ``(n, W, O)``, each stored as a whole.
            top: the first of these rows.
        """
        height, start, stop = self.rows
        upper, lower = max(top, self.touched[0]), min(top + len(strip), self.touched[1])
        for above, below in _blocks(upper, lower, strip):
            weights = _weights(self.size[0], height, above, below, start, stop, strip.dtype, strip.device)
            down = weights.transpose(1, 2).flatten(1)  # (rows, 3 n)
            lines = strip[above - top : below - top].flatten(1)
            for left, right, block in self.blocks:
                lines[:, left * self.outputs : right * self.outputs].addmm_(down, block)


def upsampled_gradients(level: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of a map ``(B, C, h, w)`` and of its weight.

    Args:
        level: the small map, ``(B, C, h, w)``.
        weight: ``(O, C, 3, 3)``.
        gradient: of the result, ``(B, O, H, W)``.
    """
    kernel = tap_rows(weight)
    kernel_gradient = torch.zeros_like(kernel)
    level_gradient = level.new_zeros(len(level), *level.shape[2:], level.shape[1])
    results = gradient.permute(0, 2, 3, 1).contiguous()
    for image, image_gradient, result in zip(level.permute(0, 2, 3, 1), level_gradient, results, strict=True):
        for start, stop in _chunk_rows(image.shape, kernel, result.shape[0]):
            products = _product_gradients(result, (image.shape[0], image.shape[1]), start, stop)  # (3, cells, 3 O)
            cells = image[start:stop].reshape(-1, image.shape[-1])
            flat = image_gradient[start:stop].view(cells.shape)
            for tap in range(3):
                kernel_gradient[tap].addmm_(cells.t(), products[tap])
                flat.addmm_(products[tap], kernel[tap].t())
    taps = kernel_gradient.view(3, weight.shape[1], 3, weight.shape[0])  # (rows, C, columns, O)
    return level_gradient.permute(0, 3, 1, 2), taps.permute(3, 1, 0, 2)


def _product_gradients(gradient: Tensor, source: Size, start: int, stop: int) -> Tensor:
    """Gradient of the products of rows of the small map, ``(3, rows * w, 3 O)``, from the result's ``(H, W, O)``."""
    height, width, outputs = gradient.shape
    above, below = touched(height, source[0], start, stop)
    lines = gradient[above:below].flatten(1)
    down = _weights(height, source[0], above, below, start, stop, gradient.dtype, gradient.device)
    upright = torch.mm(down.transpose(1, 2).flatten(1).t(), lines).view(-1, width, outputs)  # (3 rows, W, O)
    products = upright.new_empty(len(upright), source[1] * 3, outputs)
    for first, last in _blocks(0, source[1], gradient):
        left, right = touched(width, source[1], first, last)
        across = _weights(width, source[1], left, right, first, last, gradient.dtype, gradient.device)
        part = torch.bmm(across.flatten(1).t().expand(len(upright), -1, -1), upright[:, left:right])
        products[:, 3 * first : 3 * last] = part
    return products.view(3, -1, 3 * outputs)


def _block(like: Tensor) -> int:
    return _CPU_BLOCK if like.device.type == "cpu" else _DEVICE_BLOCK


def _blocks(start: int, stop: int, like: Tensor) -> list[tuple[int, int]]:
    step = _block(like)
    return [(at, min(at + step, stop)) for at in range(start, stop, step)]


def seen(size: int, source: int, start: int, stop: int) -> tuple[int, int]:
    """The cells of an axis that some places of the upsampled axis, and their neighbours, are made from.

    Args:
        size: length of the upsampled axis, in cells.
        source: length of the axis, in cells.
        start: first place.
        stop: place after the last one.

    Returns:
        The first cell, and the one after the last.
    """
    last = _lower_neighbour(min(stop, size - 1), size, source)
    return _lower_neighbour(max(start - 1, 0), size, source), min(last + 2, source)


def touched(size: int, source: int, first: int, last: int) -> tuple[int, int]:
    """The places of an upsampled axis that some of its cells, or their neighbours, may have a part in.

    Args:
        size: length of the upsampled axis, in cells.
        source: length of the axis, in cells.
        first: first cell.
        last: cell after the last one.

    Returns:
        The first place, and the one after the last.
    """
    start, stop = (math.floor((cell + 0.5) * size / source) for cell in (first - 1, last))
    return max(start - 2, 0), min(stop + 2, size)


def _lower_neighbour(place: int, size: int, source: int) -> int:
    return min(max(math.floor((place + 0.5) * source / size - 0.5), 0), source - 1)


@cached_geometry(maxsize=1024)
def _weights(
    size: int, source: int, start: int, stop: int, first: int, last: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """How much of the cells ``first..last`` each tap sees at the places ``start..stop``, ``(places, cells, 3)``."""
    exact = torch.promote_types(dtype, torch.float32)
    weights = torch.zeros(stop - start + 2, source, dtype=exact)
    places = torch.arange(max(start - 1, 0), min(stop + 1, size))  # with the neighbours that the taps reach
    lower, upper, share = neighbours(places, source, size, exact)
    lines = places - start + 1
    weights.index_put_((lines, lower), 1 - share, accumulate=True)
    weights.index_put_((lines, upper), share, accumulate=True)
    taps = weights[:, first:last].unfold(0, 3, 1)  # (places, cells, 3)
    return taps.to(device, dtype).contiguous()
