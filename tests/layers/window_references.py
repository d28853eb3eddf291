"""Windows in the plain way, to hold the order of ``src.layers.window_order`` against."""

from collections.abc import Sequence

import torch
from torch import Tensor

from src.layers.size import Size
from src.layers.windows import padded_size, window_regions


def reverse(windows: Tensor, size: Size, window: Size, shift: Size = (0, 0)) -> Tensor:
    """Puts windows back into the map that :func:`partition` cut.

    Args:
        windows: windows ``(B, M, N, C)``.
        size: height and width of the map without padding, in tokens.
        window: height and width of a window, in tokens.
        shift: rows and columns by which the map was rolled, in tokens.

    Returns:
        Map ``(B, H, W, C)``.
    """
    rows, columns = padded_size(size, window)
    x = windows.view(len(windows), rows // window[0], columns // window[1], *window, -1)
    x = x.transpose(2, 3).reshape(len(windows), rows, columns, -1)  # (B, rows, columns, C)
    if any(shift):
        x = x.roll(shift, (1, 2))
    return x[:, : size[0], : size[1]]


def batch_regions(
    map_size: Size, sizes: Sequence[Size], window: Size, shift: Size, mask_padding: bool, device: torch.device
) -> Tensor | None:
    """The regions of :func:`window_regions` for the images of a batch.

    Args:
        map_size: height and width of the map, in tokens.
        sizes: height and width of each image in the map, in tokens; a single one stands for all images.
        window: height and width of a window, in tokens.
        shift: rows and columns by which the map is rolled, in tokens.
        mask_padding: keep the padding of the last windows out of the image's regions.
        device: where the result lives.

    Returns:
        Region numbers ``(B, M, N)``, uint8, B = 1 where all images share them, or None where every window is one
        region.
    """
    distinct = {
        size: window_regions(map_size, size, window, shift, mask_padding, device) for size in dict.fromkeys(sizes)
    }
    separated = next((regions for regions in distinct.values() if regions is not None), None)
    if separated is None:
        return None
    if len(distinct) == 1:
        return separated[None]
    whole = torch.zeros_like(separated)
    return torch.stack([whole if (regions := distinct[size]) is None else regions for size in sizes])
