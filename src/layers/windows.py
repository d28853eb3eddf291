"""The geometry of a grid of windows on a map of any size: pad, shift, partition, regions.

Shapes: B images, a map of H x W tokens with C channels, windows of h x w = N tokens, of which M cover the padded map.
Sizes are (height, width) in tokens. The order is always pad, then roll, then partition.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.geometry_cache import cached_geometry
from src.layers.size import Size


def padded_size(size: Size, window: Size) -> Size:
    """The size of a map once whole windows cover it.

    Args:
        size: height and width of the map, in tokens.
        window: height and width of a window, in tokens.
    """
    return -(-size[0] // window[0]) * window[0], -(-size[1] // window[1]) * window[1]


def kept_shift(shift: Size, size: Size, window: Size, shift_covered: bool) -> Size:
    """The shift that a map of this size gets.

    Args:
        shift: rows and columns to shift by, in tokens.
        size: height and width of the map, in tokens.
        window: height and width of a window, in tokens.
        shift_covered: keep the shift along an axis that one window covers.
    """
    if shift_covered:
        return shift
    return shift[0] if size[0] > window[0] else 0, shift[1] if size[1] > window[1] else 0


def partition(x: Tensor, window: Size, shift: Size = (0, 0)) -> Tensor:
    """Pads a map with zeros at the bottom and the right, rolls it and cuts it into windows.

    Args:
        x: map ``(B, H, W, C)``.
        window: height and width of a window, in tokens.
        shift: rows and columns by which the map is rolled up and left, in tokens.

    Returns:
        Windows ``(B, M, N, C)``, row by row.
    """
    batch, height, width, channels = x.shape
    rows, columns = padded_size((height, width), window)
    if (rows, columns) != (height, width):
        x = F.pad(x, (0, 0, 0, columns - width, 0, rows - height))
    if any(shift):
        x = x.roll((-shift[0], -shift[1]), (1, 2))
    x = x.view(batch, rows // window[0], window[0], columns // window[1], window[1], channels)
    return x.transpose(2, 3).reshape(batch, -1, window[0] * window[1], channels)


@cached_geometry(maxsize=32)
def window_coords(window: Size, device: torch.device) -> Tensor:
    """The places of a window's tokens, row by row.

    Args:
        window: height and width of the window, in tokens.
        device: where the result lives.

    Returns:
        Coordinates ``(N, 2)``, int64, in tokens.
    """
    rows, columns = (torch.arange(extent, device=device) for extent in window)
    return torch.cartesian_prod(rows, columns).view(-1, 2)


@cached_geometry(maxsize=64)
def window_regions(
    map_size: Size, size: Size, window: Size, shift: Size, mask_padding: bool, device: torch.device
) -> Tensor | None:
    """The region of each token in each window; attention stays inside a region.

    Rolling brings the top of the image below its bottom: these are two regions, and so are left and right. Tokens
    beyond the image's own padded size (or, with ``mask_padding``, beyond the image) stand in regions without image.

    Args:
        map_size: height and width of the map, in tokens.
        size: height and width of the image in the map, in tokens.
        window: height and width of a window, in tokens.
        shift: rows and columns by which the map is rolled, in tokens.
        mask_padding: keep the padding of the last windows out of the image's regions.
        device: where the result lives.

    Returns:
        Region numbers ``(M, N)``, uint8, or None where every window is one region.
    """
    limits = size if mask_padding else padded_size(size, window)
    if not any(shift) and limits == padded_size(limits, window):
        return None
    rows, columns = (
        _axis_regions(extent, limit, step, device)
        for extent, limit, step in zip(padded_size(map_size, window), limits, shift, strict=True)
    )
    regions = (3 * rows[:, None] + columns).to(torch.uint8)
    return partition(regions[None, :, :, None], window)[0, :, :, 0]


def _axis_regions(extent: int, limit: int, shift: int, device: torch.device) -> Tensor:
    """Along one axis after the roll: 0 stays, 1 came round from the start, 2 is beyond the limit."""
    place = (torch.arange(extent, device=device) + shift) % extent
    return torch.where(place >= limit, 2, (place < shift).long())


@cached_geometry(maxsize=32)
def outside(map_size: Size, sizes: tuple[Size, ...], device: torch.device) -> Tensor:
    """True on the cells of a map that are beyond the true size of each image.

    Args:
        map_size: height and width of the map, in cells.
        sizes: true height and width of each image, in cells.
        device: where the result lives.

    Returns:
        Mask ``(B, H, W)``, bool.
    """
    height, width = torch.tensor(sizes, device=device).view(-1, 2, 1, 1).unbind(1)  # (B, 1, 1) each
    rows, columns = (torch.arange(extent, device=device) for extent in map_size)
    return (rows[:, None] >= height) | (columns >= width)


def zero_outside(x: Tensor, sizes: Sequence[Size] | None) -> Tensor:
    """Sets what stands beyond the true size of each image to zero, NaN included.

    Args:
        x: map ``(B, H, W, C)``.
        sizes: true height and width of each image, in tokens; None: the map's.
    """
    map_size = (x.shape[1], x.shape[2])
    if sizes is None or all(size == map_size for size in sizes):
        return x
    return x.masked_fill(outside(map_size, tuple(sizes), x.device)[..., None], 0)
