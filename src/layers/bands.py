"""Logits at full size, a band of rows at a time.

Upsampled logits are the largest tensor of dense prediction: 150 classes of a 4000x6000 photograph are 14 GB.
What is made of them, labels, counts or a loss, needs a few rows at once only.
"""

import itertools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

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
    steps = _steps(logits, input_size, size)
    rows = torch.arange(*band)
    mixes: list[tuple[Tensor, Tensor, Tensor]] = []
    for (source, _), (target, _) in reversed(steps):
        lower, upper, weight = _linear_rows(rows, source, target, dtype)
        rows, places = torch.stack([lower, upper]).unique(return_inverse=True)
        mixes.insert(0, (places[0], places[1], weight[:, None, None]))
    device = logits.device
    result = logits.permute(0, 2, 3, 1).index_select(1, rows.to(device, non_blocking=True)).to(dtype)  # (B, rows, w, K)
    for mix in mixes:
        lower, upper, weight = (part.to(device, non_blocking=True) for part in mix)
        result = torch.lerp(result.index_select(1, lower), result.index_select(1, upper), weight)
    result = result.contiguous().permute(0, 3, 1, 2)  # channels last: the kernels are faster
    for _, (_, width) in steps:
        result = F.interpolate(result, size=(result.shape[-2], width), mode="bilinear", align_corners=False)
    return result


def _compute_dtype(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def _steps(logits: Tensor, input_size: Size, size: Size | None) -> list[tuple[Size, Size]]:
    """The sizes before and after each resizing that changes something."""
    sizes = [(logits.shape[-2], logits.shape[-1]), (input_size[0], input_size[1])]
    sizes.append(sizes[-1] if size is None else (size[0], size[1]))
    return [(before, after) for before, after in itertools.pairwise(sizes) if before != after]


def _linear_rows(rows: Tensor, source: int, target: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The two source rows of each row and the weight of the second, rounded as torch's kernels round them."""
    scale = torch.tensor(source, dtype=dtype) / target
    place = ((rows + 0.5).double() * scale.double() - 0.5).to(dtype).clamp(min=0)  # as one fused multiply-add
    lower = place.floor().clamp(max=source - 1)
    weight = (place - lower).clamp(max=1)
    return lower.long(), (lower + 1).clamp(max=source - 1).long(), weight
