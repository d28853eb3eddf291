"""Maps that pass through convolutions a strip of rows at a time, so that they never exist whole.

Shapes: a strip has some rows of W cells with C channels, ``(n, W, C)``; strips of a map follow one another from top to
bottom and may differ in their number of rows.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from src.layers.conv3x3 import Kernel
from src.layers.size import Size
from src.layers.upsampled_taps import Chunk, chunks

_CPU_STRIP, _DEVICE_STRIP = 2**23, 2**28  # bytes of a strip; the second is not measured


def strip_rows(size: Size, channels: int, like: Tensor) -> int:
    """The number of rows that a strip should have.

    Args:
        size: height and width of the map, in cells.
        channels: most channels that the map has on its way.
        like: a tensor of the type and device.
    """
    budget = _CPU_STRIP if like.device.type == "cpu" else _DEVICE_STRIP
    rows = budget // (size[1] * channels * like.element_size())
    return min(size[0], max(8, rows // 4 * 4))


def convolved(strips: Iterable[Tensor], kernel: Kernel) -> Iterator[Tensor]:
    """The strips of a convolved map, its borders padded with zeros.

    Args:
        strips: strips ``(n, W, C)`` of the map.
        kernel: the convolution; in tiles, all strips but the last get whole tiles.
    """
    multiple = 1 if kernel.tile is None else kernel.tile.rows
    waiting: Tensor | None = None
    above = False  # whether the first row that waits is above those to be convolved
    for strip in strips:
        waiting = strip if waiting is None else torch.cat([waiting, strip])
        count = (len(waiting) - 1 - above) // multiple * multiple
        if count > 0:
            yield kernel.strip(waiting[: count + 1 + above], above, True)
            waiting = waiting[count - 1 + above :]
            above = True
    if waiting is not None:
        yield kernel.strip(waiting, above, False)


class UpsampledStrips:
    """Adds the convolution of an upsampled map to strips of a result, see ``src.layers.upsampled_conv``.

    Args:
        image: the small map, ``(h, w, C)``.
        kernel: ``(3, C, 3 * O)``, see ``tap_rows``.
        size: height and width of the result, in cells.
    """

    def __init__(self, image: Tensor, kernel: Tensor, size: Size) -> None:
        self._coming = chunks(image, kernel, size)
        self._next: Chunk | None = next(self._coming)
        self._live: list[Chunk] = []

    def add_to(self, strip: Tensor, top: int) -> None:
        """Adds to the next strip.

        Args:
            strip: ``(n, W, O)``.
            top: its first row.
        """
        while self._next is not None and self._next.touched[0] < top + len(strip):
            self._live.append(self._next)
            self._next = next(self._coming, None)
        for chunk in self._live:
            chunk.add_to(strip, top)
        self._live = [chunk for chunk in self._live if chunk.touched[1] > top + len(strip)]
