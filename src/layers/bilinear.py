"""Which cells a bilinear resizing mixes, along one axis."""

import torch
from torch import Tensor

from src.layers.size import Size


def neighbours(places: Tensor, source: int, target: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The two cells that each place of a resized axis is made from, without aligned corners.

    Args:
        places: places of the resized axis, int64.
        source: length of the axis, in cells.
        target: length of the resized axis, in cells.
        dtype: float32 or float64, in which torch's kernels compute.

    Returns:
        Index of the first cell and of the second, int64, and the share of the second, rounded as torch's kernels round
        it.
    """
    scale = torch.tensor(source, dtype=dtype) / target
    place = ((places + 0.5).double() * scale.double() - 0.5).to(dtype).clamp(min=0)  # as one fused multiply-add
    lower = place.floor().clamp(max=source - 1)
    share = (place - lower).clamp(max=1)
    return lower.long(), (lower + 1).clamp(max=source - 1).long(), share


def resized_rows(image: Tensor, size: Size, start: int, stop: int) -> Tensor:
    """Some rows of a map that is resized bilinearly, without aligned corners.

    Args:
        image: the map, ``(h, w, C)``.
        size: height and width of the resized map, in cells.
        start: first row.
        stop: row after the last one.

    Returns:
        ``(stop - start, W, C)``.
    """
    first, upper, share = _on(image, start, stop, image.shape[0], size[0])
    lines = torch.lerp(image[first], image[upper], share[:, None, None])
    first, upper, share = _on(image, 0, size[1], image.shape[1], size[1])
    return torch.lerp(lines[:, first], lines[:, upper], share[:, None])


def _on(like: Tensor, start: int, stop: int, source: int, target: int) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(like.dtype, torch.float32)
    lower, upper, share = neighbours(torch.arange(start, stop), source, target, dtype)
    return lower.to(like.device), upper.to(like.device), share.to(like.device, like.dtype)
