"""Logits at full size, a band of rows at a time.

Upsampled logits are the largest tensor of dense prediction: 150 classes of a 4000x6000 photograph are 14 GB. What is made
of them, labels, counts or a loss, needs a few rows at once only.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

Size = tuple[int, int]
"""Height and width, in pixels."""

BAND_BYTES = 16 * 2**20
"""Bytes that the logits of one band may take, unless a single row takes more."""


def bands(logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int = BAND_BYTES) -> Iterator[Size]:
    """The bands of rows, ``(start, stop)``, whose logits fit into ``max_bytes`` each.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride.
        input_size: height and width of the model's input, in pixels.
        size: height and width asked for, in pixels; None for the input's.
        max_bytes: bytes for the logits of a band; at least one row is always taken.
    """
    height, width = size or input_size
    item_bytes = _compute_dtype(logits).itemsize
    row_bytes = logits.shape[0] * logits.shape[1] * max(width, input_size[1]) * item_bytes
    rows = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, height, rows):
        yield start, min(start + rows, height)


def resized_band(logits: Tensor, band: Size, input_size: Size, size: Size | None = None) -> Tensor:
    """Rows of the logits resized to ``input_size`` and from there to ``size``, both bilinear without aligned corners.

    The same as these rows of ``torch.nn.functional.interpolate`` called twice, up to the order of its sums.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        band: the first row and the one after the last, of the result.
        input_size: height and width of the model's input, in pixels.
        size: height and width asked for, in pixels; None for the input's.

    Returns:
        Scores ``(B, K, stop - start, width)``, float32 for half precision and the logits' own type otherwise.
    """
    dtype = _compute_dtype(logits)
    rows = torch.arange(*band, device=logits.device)
    wanted = rows
    heights = [logits.shape[-2]] + [step[0] for step in _steps(logits, input_size, size)]
    mixes: list[tuple[Tensor, Tensor, Tensor]] = []
    for source, target in reversed(list(zip(heights, heights[1:], strict=False))):
        lower, upper, weight = _linear_rows(rows, source, target, dtype)
        rows, places = torch.cat([lower, upper]).unique(return_inverse=True)
        mixes.insert(0, (*places.chunk(2), weight))
    result = logits[:, :, rows].to(dtype, memory_format=torch.channels_last)
    for lower, upper, weight in mixes:
        result = torch.lerp(result[:, :, lower], result[:, :, upper], weight[:, None])
    for _, width in _steps(logits, input_size, size):
        result = F.interpolate(result, size=(len(wanted), width), mode="bilinear", align_corners=False)
    return result


def _compute_dtype(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def _steps(logits: Tensor, input_size: Size, size: Size | None) -> list[Size]:
    sizes = [tuple(logits.shape[-2:]), tuple(input_size), tuple(size or input_size)]
    return [after for before, after in zip(sizes, sizes[1:], strict=False) if before != after]


def _linear_rows(rows: Tensor, source: int, target: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The two source rows of each row and the weight of the second, rounded as torch's kernels round them."""
    scale = torch.tensor(source, dtype=dtype) / target
    place = ((rows + 0.5).double() * scale.double() - 0.5).to(dtype).clamp(min=0)  # as one fused multiply-add
    lower = place.floor().clamp(max=source - 1)
    weight = (place - lower).clamp(max=1)
    return lower.long(), (lower + 1).clamp(max=source - 1).long(), weight
