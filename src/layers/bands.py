"""Logits at full size, a band of rows at a time.

Upsampled logits are the largest tensor of dense prediction: 150 classes of a 4000x6000 photograph are 14 GB.
What is made of them, labels, counts or a loss, needs a few rows at once only.

Shapes: logits are ``(B, K, h, w)``, the result ``(B, K, H, W)``, of which a band has some rows.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.size import Size

Mix = tuple[Tensor, Tensor, Tensor]
"""For each row of a result: the index of two rows, and the weight of the second."""

_CPU_BYTES, _DEVICE_BYTES = 4 * 2**20, 64 * 2**20  # what a CPU's caches hold; for accelerators not measured


@dataclass(frozen=True)
class Band:
    """Some rows of logits resized bilinearly, without aligned corners, once or twice.

    Args:
        rows: rows of the result.
        source: rows of the logits that these are made from.
        dtype: type of the result.
        mixes: for each resizing, the two rows to mix for each row, and the weight of the second.
        widths: width after each resizing.
    """

    rows: slice
    source: slice
    dtype: torch.dtype
    mixes: tuple[Mix, ...]
    widths: tuple[int, ...]

    def resized(self, logits: Tensor) -> Tensor:
        """The band's scores, as ``torch.nn.functional.interpolate`` gives them up to the order of its sums.

        Args:
            logits: the ``source`` rows of the logits, ``(B, K, source rows, w)``.

        Returns:
            Scores ``(B, K, rows, W)`` of type ``dtype``, stored channels last.
        """
        result = logits.permute(0, 2, 3, 1).to(self.dtype).contiguous()
        for mix in self.mixes:
            lower, upper, weight = (part.to(logits.device, non_blocking=True) for part in mix)
            result = torch.lerp(result.index_select(1, lower), result.index_select(1, upper), weight)
        result = result.permute(0, 3, 1, 2)
        for width in self.widths:
            result = F.interpolate(result, size=(result.shape[-2], width), mode="bilinear", align_corners=False)
        return result


def bands(logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None) -> Iterator[Band]:
    """Bands that together are the logits resized to ``input_size`` and from there to ``size``.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels.
        size: height and width asked for, in pixels; None for the input's.
        max_bytes: bytes for the scores of a band, in float32 or float64, at least one row's;
            None: 4 MiB on a CPU, 64 MiB elsewhere.
    """
    sizes = [(logits.shape[-2], logits.shape[-1]), (input_size[0], input_size[1])]
    sizes.append(sizes[-1] if size is None else (size[0], size[1]))
    steps = [(before, after) for before, after in itertools.pairwise(sizes) if before != after]
    heights = [(before[0], after[0]) for before, after in steps]
    widths = tuple(after[1] for _, after in steps)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    if max_bytes is None:
        max_bytes = _CPU_BYTES if logits.device.type == "cpu" else _DEVICE_BYTES
    row_bytes = logits.shape[0] * logits.shape[1] * max(sizes[1][1], sizes[2][1]) * dtype.itemsize
    count = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, sizes[-1][0], count):
        rows = slice(start, min(start + count, sizes[-1][0]))
        source, mixes = _mixes(rows, heights, dtype)
        yield Band(rows, source, dtype, mixes, widths)


def _mixes(rows: slice, heights: list[Size], dtype: torch.dtype) -> tuple[slice, tuple[Mix, ...]]:
    """The rows of the logits behind ``rows`` of the result, and how each resizing mixes them."""
    wanted = torch.arange(rows.start, rows.stop)
    mixes: list[Mix] = []
    for before, after in reversed(heights):
        lower, upper, weight = _linear_rows(wanted, before, after, dtype)
        wanted = torch.cat([lower, upper]).unique()
        if len(mixes) == len(heights) - 1:
            wanted = torch.arange(int(wanted[0]), int(wanted[-1]) + 1)
        mixes.insert(0, (torch.searchsorted(wanted, lower), torch.searchsorted(wanted, upper), weight[:, None, None]))
    return slice(int(wanted[0]), int(wanted[-1]) + 1), tuple(mixes)


def _linear_rows(rows: Tensor, source: int, target: int, dtype: torch.dtype) -> Mix:
    """The two source rows of each row and the weight of the second, rounded as torch's kernels round them."""
    scale = torch.tensor(source, dtype=dtype) / target
    place = ((rows + 0.5).double() * scale.double() - 0.5).to(dtype).clamp(min=0)  # as one fused multiply-add
    lower = place.floor().clamp(max=source - 1)
    weight = (place - lower).clamp(max=1)
    return lower.long(), (lower + 1).clamp(max=source - 1).long(), weight
