"""Logits at full size, a band of rows at a time.

Upsampled logits are the largest tensor of dense prediction: 150 classes of a 4000x6000 photograph are 14 GB.
What is made of them, labels, counts or a loss, needs a few rows at once only.

Shapes: logits are ``(B, K, h, w)``, the result ``(B, K, H, W)``, of which a band has some rows. Work is done channels
last: cells ``(B, h, w, K)``, scores ``(B, rows, W, K)``.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from src.layers.linear_axis import BLOCK, Block, add_transposed, axis_blocks, full_precision, resized
from src.layers.size import Size

ROWS = 16
"""Rows that one matrix makes, and that a band has at least where its bytes allow it."""

_CPU_BYTES, _DEVICE_BYTES = 8 * 2**20, 64 * 2**20  # 4 and 16 MiB are no faster on a CPU; for accelerators not measured


class Scratch:
    """Memory that bands use one after another, so that it is not asked of the system each time.

    Args:
        like: tells the device.
    """

    def __init__(self, like: Tensor) -> None:
        self._device = like.device
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of any content, which shares its memory with the last one of this name.

        Args:
            name: what it is for.
            shape: its shape.
            dtype: its type, the same for all of one name.
        """
        numel = int(torch.Size(shape).numel())
        kept = self._kept.get(name)
        if kept is None or kept.numel() < numel:
            kept = self._kept[name] = torch.empty(numel, dtype=dtype, device=self._device)
        return kept[:numel].view(shape)


@dataclass(frozen=True)
class Band:
    """Some rows of logits resized bilinearly, without aligned corners, once or twice.

    Args:
        rows: rows of the result.
        source: rows of the logits that these are made from.
        dtype: type of the result.
        row_blocks: how rows of cells become rows of pixels.
        column_blocks: how columns of cells become columns of pixels.
        columns_first: whether columns are made before rows, which is less work where rows become more.
    """

    rows: slice
    source: slice
    dtype: torch.dtype
    row_blocks: tuple[Block, ...]
    column_blocks: tuple[Block, ...]
    columns_first: bool

    @property
    def height(self) -> int:
        """Number of rows of the result."""
        return self.rows.stop - self.rows.start

    @property
    def width(self) -> int:
        """Number of columns of the result."""
        return self.column_blocks[-1].places.stop

    def resized(self, logits: Tensor) -> Tensor:
        """The band's scores, as ``torch.nn.functional.interpolate`` gives them up to rounding.

        Args:
            logits: the ``source`` rows of the logits, ``(B, K, source rows, w)``.

        Returns:
            Scores ``(B, K, rows, W)`` of type ``dtype``, stored channels last. Their gradient can be taken once.
        """
        return _Resized.apply(channels_last(logits), self).permute(0, 3, 1, 2)

    def mix(self, cells: Tensor, scratch: Scratch) -> Tensor:
        """The band's scores, without a gradient.

        Args:
            cells: the ``source`` rows, ``(B, source rows, w, K)`` of type ``dtype``, each image contiguous.
            scratch: memory for the result, under ``scores``, and on the way there.

        Returns:
            Scores ``(B, rows, W, K)``, which the next band overwrites.
        """
        images, _, _, classes = cells.shape
        result = scratch.take("scores", (images, self.height, self.width, classes), self.dtype)
        with full_precision():
            if self.columns_first:
                between = self._between(cells, scratch)
                self._columns(cells, between)
                self._rows(between, result)
            else:
                between = self._between(cells, scratch)
                self._rows(cells, between)
                self._columns(between, result)
        return result

    def add_gradient(self, gradient: Tensor, result: Tensor, scratch: Scratch) -> None:
        """Adds the gradient of the scores to that of the cells.

        Args:
            gradient: of the scores, ``(B, rows, W, K)`` contiguous.
            result: of the ``source`` rows, ``(B, source rows, w, K)``, each image contiguous.
            scratch: memory on the way there.
        """
        between = self._between(result, scratch).zero_()
        with full_precision():
            if self.columns_first:
                self._rows_back(gradient, between)
                self._columns_back(between, result)
            else:
                self._columns_back(gradient, between)
                self._rows_back(between, result)

    def _between(self, cells: Tensor, scratch: Scratch) -> Tensor:
        """Memory for what is resized along one axis alone."""
        images, rows, columns, classes = cells.shape
        shape = (images, rows, self.width, classes) if self.columns_first else (images, self.height, columns, classes)
        return scratch.take("between", shape, self.dtype)

    def _columns(self, x: Tensor, result: Tensor) -> None:
        for block in self.column_blocks:
            for one, image in zip(result, x, strict=True):
                resized(image, block, one[:, block.places])

    def _rows(self, x: Tensor, result: Tensor) -> None:
        for block in self.row_blocks:
            places = slice(block.places.start - self.rows.start, block.places.stop - self.rows.start)
            resized(x.flatten(2), block, result.flatten(2)[:, places], self.source.start)

    def _columns_back(self, gradient: Tensor, result: Tensor) -> None:
        for block in self.column_blocks:
            for one, image in zip(gradient, result, strict=True):
                add_transposed(one[:, block.places], block, image)

    def _rows_back(self, gradient: Tensor, result: Tensor) -> None:
        for block in self.row_blocks:
            places = slice(block.places.start - self.rows.start, block.places.stop - self.rows.start)
            add_transposed(gradient.flatten(2)[:, places], block, result.flatten(2), self.source.start)


class _Resized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cells: Tensor, band: Band) -> Tensor:
        ctx.band, ctx.shape = band, cells.shape
        return band.mix(cells, Scratch(cells))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        result = gradient.new_zeros(ctx.shape)
        ctx.band.add_gradient(gradient.contiguous(), result, Scratch(gradient))
        return result, None


def bands(logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None) -> Iterator[Band]:
    """Bands that together are the logits resized to ``input_size`` and from there to ``size``.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels.
        size: height and width asked for, in pixels; None for the input's.
        max_bytes: bytes for the scores of a band, in float32 or float64, at least one row's;
            None: 8 MiB on a CPU, 64 MiB elsewhere.
    """
    heights, widths = axis_lengths(logits, input_size, size)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    columns_first = heights[-1] >= heights[0]
    row_bytes = logits.shape[0] * logits.shape[1] * dtype.itemsize
    row_bytes *= widths[-1] if columns_first else max(widths[0], widths[-1])
    most = allowed_bytes(logits, max_bytes) // max(1, row_bytes)
    if columns_first:  # the rows of cells that a band mixes, of the width of the result by then, must fit too
        most = min(most, (most - 3) * heights[-1] // heights[0])
    count = max(1, most)
    block = min(count, ROWS)
    columns = axis_blocks(widths, BLOCK, dtype, logits.device)
    rows = axis_blocks(heights, block, dtype, logits.device)
    for start in range(0, len(rows), count // block):
        own = rows[start : start + count // block]
        source = slice(own[0].cells.start, own[-1].cells.stop)
        yield Band(slice(own[0].places.start, own[-1].places.stop), source, dtype, own, columns, columns_first)


def image_groups(logits: Tensor, size: Size, max_bytes: int | None = None) -> Iterator[slice]:
    """Images that are worked on together: fewer than all where a band of all of them would be a few rows only.

    Args:
        logits: scores ``(B, K, h, w)``.
        size: height and width of the result, in pixels.
        max_bytes: as for ``bands``.
    """
    image_bytes = logits.shape[1] * max(size[1], logits.shape[-1]) * min(ROWS, size[0])
    image_bytes *= torch.promote_types(logits.dtype, torch.float32).itemsize
    count = max(1, allowed_bytes(logits, max_bytes) // max(1, image_bytes))
    for start in range(0, len(logits), count):
        yield slice(start, min(start + count, len(logits)))


def channels_last(logits: Tensor) -> Tensor:
    """A copy of the logits as cells ``(B, h, w, K)`` in float32 or float64.

    Infinities become the largest numbers, for a product with a share of 0 must be 0.

    Args:
        logits: scores ``(B, K, h, w)``, any floating type.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    cells = logits.permute(0, 2, 3, 1)
    if logits.device.type == "cpu" and logits.stride(1) != 1 and len(logits):
        # Matrices are transposed in tiles on a CPU, three times as fast as axes are permuted.
        parts = [image.contiguous().flatten(1).t().contiguous().view(cells.shape[1:]) for image in logits]
        cells = parts[0][None] if len(parts) == 1 else torch.stack(parts)
    limit = torch.finfo(logits.dtype).max / 4
    return cells.contiguous().clamp(-limit, limit)


def axis_lengths(logits: Tensor, input_size: Size, size: Size | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lengths of the rows' axis, and of the columns', before the first resizing and after each that changes a size.

    Args:
        logits: scores ``(B, K, h, w)``.
        input_size: height and width of the model's input, in pixels.
        size: height and width asked for, in pixels; None for the input's.
    """
    sizes = [(logits.shape[-2], logits.shape[-1]), (input_size[0], input_size[1])]
    sizes.append(sizes[-1] if size is None else (size[0], size[1]))
    steps = sizes[:1] + [after for before, after in itertools.pairwise(sizes) if before != after]
    return tuple(height for height, _ in steps), tuple(width for _, width in steps)


def allowed_bytes(logits: Tensor, max_bytes: int | None) -> int:
    """Bytes that the scores of a band may take.

    Args:
        logits: tells the device.
        max_bytes: what was asked for; None: as fits the device.
    """
    if max_bytes is not None:
        return max_bytes
    return _CPU_BYTES if logits.device.type == "cpu" else _DEVICE_BYTES
