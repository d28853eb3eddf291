"""Averages over the cells of a grid, on maps of any size."""

from typing import cast

import torch
from torch import Tensor, nn


class GridAverage(nn.AdaptiveAvgPool2d):
    """``nn.AdaptiveAvgPool2d`` to a square grid, in a form that a compiled graph can keep for all sizes of maps.

    Torch's compiler makes its own pooling for one size of map and compiles anew for the next.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The averages ``(B, C, n, n)`` of maps ``(B, C, h, w)``.

        Args:
            input: the maps.
        """
        if not torch.compiler.is_compiling():
            return super().forward(input)
        grid = cast(int, self.output_size)
        rows, columns = (_shares(extent, grid, input) for extent in input.shape[2:])
        return rows @ input @ columns.t()


def _shares(extent: int, grid: int, like: Tensor) -> Tensor:
    """Share of each cell of an axis in each average, ``(grid, extent)``."""
    cells, parts = (torch.arange(count, device=like.device) for count in (extent, grid))
    starts, stops = parts * extent // grid, ((parts + 1) * extent + grid - 1) // grid
    within = (cells >= starts[:, None]) & (cells < stops[:, None])
    exact = torch.promote_types(like.dtype, torch.float32)
    return (within.to(exact) / (stops - starts)[:, None]).to(like.dtype)
