"""The learned table of Swin: one value per head and relative place."""

from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.geometry_cache import cached_geometry
from src.layers.position_bias.contract import PositionBias
from src.layers.position_bias.geometric import geometric_resize

ResizeMethod = Literal["bicubic", "bilinear", "geometric"]


class TableBias(PositionBias):
    """A bias looked up in a table of all relative places within a window.

    Source: Liu et al., "Swin Transformer", 2021, section 3.2, equation 4. The state is the table alone, laid out as in
    the published checkpoints; the index follows from the coordinates.

    Args:
        window: height and width of the window, in tokens.
        num_heads: number of attention heads.
        init_std: standard deviation of the truncated normal that fills the table.

    Raises:
        ValueError: the window has no tokens or there is no head.
    """

    def __init__(self, window: tuple[int, int], num_heads: int, init_std: float = 0.02) -> None:
        super().__init__()
        if min(window) < 1:
            raise ValueError(f"window must be at least 1 token high and wide, got {window}; give a larger one.")
        if num_heads < 1:
            raise ValueError(f"num_heads must be at least 1, got {num_heads}; give that of the attention.")
        self.window = (window[0], window[1])
        self.relative_position_bias_table = nn.Parameter(
            torch.empty((2 * window[0] - 1) * (2 * window[1] - 1), num_heads)
        )
        nn.init.trunc_normal_(self.relative_position_bias_table, std=init_std)

    @property
    def num_heads(self) -> int:
        """Number of attention heads."""
        return self.relative_position_bias_table.shape[1]

    def forward(self, query_coords: Tensor, key_coords: Tensor) -> Tensor:
        """The bias of every pair of places no further apart than the window reaches.

        Args:
            query_coords: places of the queries ``(Nq, 2)``, whole numbers, in tokens.
            key_coords: places of the keys ``(Nk, 2)``, whole numbers, in tokens.

        Returns:
            Bias ``(num_heads, Nq, Nk)``.

        Raises:
            ValueError: a key is out of the window's reach from a query.
        """
        index = relative_index(query_coords, key_coords, self.window)
        bias = self.relative_position_bias_table[index.flatten()]  # (Nq * Nk, heads)
        return bias.t().reshape(-1, *index.shape)  # (heads, Nq, Nk)

    @torch.no_grad()
    def resized(self, window: tuple[int, int], method: ResizeMethod = "bicubic") -> Self:
        """A table for another window with the values of this one, interpolated.

        Args:
            window: height and width of the new window, in tokens.
            method: ``bicubic`` (what the published segmentation code does) and ``bilinear`` stretch the table to the
                new range of relative places; ``geometric`` keeps the spacing near the centre, see
                :func:`src.layers.position_bias.geometric.geometric_resize`.

        Raises:
            ValueError: unknown method.
        """
        if method not in ("bicubic", "bilinear", "geometric"):
            raise ValueError(f"method must be bicubic, bilinear or geometric, got {method!r}; take one of these.")
        resized = type(self)(window, self.num_heads).to(self.relative_position_bias_table)
        if window == self.window:
            resized.load_state_dict(self.state_dict())
            return resized
        rows, columns = (2 * extent - 1 for extent in window)
        table = self.relative_position_bias_table.t()
        table = table.reshape(-1, 2 * self.window[0] - 1, 2 * self.window[1] - 1)  # (heads, rows, columns)
        if method == "geometric":
            table = geometric_resize(table, (rows, columns))
        else:
            table = F.interpolate(table[None].float(), (rows, columns), mode=method, align_corners=False)[0]
        resized.relative_position_bias_table.copy_(table.flatten(1).t())
        return resized


@cached_geometry(maxsize=32)
def relative_index(query_coords: Tensor, key_coords: Tensor, window: tuple[int, int]) -> Tensor:
    """Where in a window's table the bias of each pair stands.

    Args:
        query_coords: places of the queries ``(Nq, 2)``, in tokens.
        key_coords: places of the keys ``(Nk, 2)``, in tokens.
        window: height and width of the window, in tokens.

    Returns:
        Rows of the table ``(Nq, Nk)``, int64: relative places row by row, from the most negative on.

    Raises:
        ValueError: a key is out of the window's reach from a query.
    """
    offset = (query_coords[:, None] - key_coords[None]).long()
    reach = offset.new_tensor(window) - 1
    readable = not (torch.compiler.is_compiling() or offset.is_meta)
    if readable and bool((offset.abs() > reach).any()):
        raise ValueError(
            f"key_coords must lie within a window of {window} around each query, got an offset of "
            f"{offset.abs().amax((0, 1)).tolist()} tokens; use a larger window or a bias without a table."
        )
    row, column = (offset + reach).unbind(-1)
    return row * (2 * window[1] - 1) + column
