"""The continuous bias of Swin V2: a small network of the log-spaced offset between query and key."""

import math
from collections.abc import Hashable, Sequence
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.geometry_cache import cached_geometry
from src.layers.position_bias.contract import PositionBias
from src.layers.precision import own_precision

_REACH = 8  # what the edge of the window is scaled to before the logarithm
_LARGEST = 16  # the bias lies between 0 and this


class ContinuousBias(PositionBias):
    """A bias computed from the offset of query and key along each axis, in or beyond the window.

    An offset is divided by the window's reach (its extent less one token), times 8, then ``sign(x) log2(1 + |x|) / 3``;
    a network of two layers turns that into a number for each head, and 16 times its sigmoid is the bias. The network
    runs once for each distinct offset, in float32 or better whatever the dtype of its weights.

    Source: Liu et al., "Swin Transformer V2", 2022, section 3.3, equations 3 and 4, and the authors' code, which scales
    by 8 and bounds by 16. The state is the network alone. Two things differ: the authors' code runs the network in half
    precision where the model does, and divides by zero for windows of one token.

    Args:
        window: extent of the window along each axis (height and width, or a length), in tokens.
        num_heads: number of attention heads.
        pretrained_window: extent of the window whose reach the weights were trained with, in tokens; None, or 0 as in
            the published settings: ``window``.
        hidden: number of channels between the two layers.

    Raises:
        ValueError: a window has no tokens or other axes, or there is no head or channel.
    """

    def __init__(
        self,
        window: Sequence[int],
        num_heads: int,
        pretrained_window: Sequence[int] | None = None,
        hidden: int = 512,
    ) -> None:
        super().__init__()
        if len(window) not in (1, 2) or min(window) < 1:
            raise ValueError(
                f"window must be 1 token or more along one or two axes, got {tuple(window)}; give a larger one."
            )
        if num_heads < 1 or hidden < 1:
            raise ValueError(
                f"num_heads and hidden must be at least 1, got {num_heads} and {hidden}; give the attention's heads."
            )
        self.window = tuple(window)
        self.set_pretrained_window(pretrained_window)
        self.mlp = nn.Sequential(nn.Linear(len(window), hidden), nn.ReLU(), nn.Linear(hidden, num_heads, bias=False))

    def set_pretrained_window(self, window: Sequence[int] | None) -> None:
        """Says whose reach the weights were trained with.

        Args:
            window: as ``pretrained_window``.

        Raises:
            ValueError: it has no tokens along one axis only, or other axes.
        """
        window = self.window if window is None or not any(window) else tuple(window)
        if len(window) != len(self.window) or min(window) < 1:
            raise ValueError(
                f"pretrained_window must be 1 token or more along each of the window's {len(self.window)} axes, or 0 "
                f"along all, got {window}; give that of the pretraining, or None."
            )
        self.pretrained_window = window

    @property
    def num_heads(self) -> int:
        """Number of attention heads."""
        return self._layers()[1].out_features

    @property
    def constants(self) -> Hashable:
        """The window whose reach stands for 8."""
        return self.pretrained_window

    def _layers(self) -> tuple[nn.Linear, nn.Linear]:
        return cast(nn.Linear, self.mlp[0]), cast(nn.Linear, self.mlp[2])

    def forward(self, query_coords: Tensor, key_coords: Tensor) -> Tensor:
        """The bias of every pair of places, however far apart.

        Args:
            query_coords: places of the queries ``(Nq, D)``, D as many as the window has axes, in tokens.
            key_coords: places of the keys ``(Nk, D)``, in tokens.

        Returns:
            Bias ``(num_heads, Nq, Nk)``, between 0 and 16, float32 or float64.
        """
        first, last = self._layers()
        dtype = torch.promote_types(first.weight.dtype, torch.float32)
        offsets, index = log_offsets(query_coords, key_coords, self.window, self.pretrained_window, dtype)
        with own_precision(offsets.device):
            hidden = F.relu(F.linear(offsets, first.weight.to(dtype), first.bias.to(dtype)))
            values = _LARGEST * F.linear(hidden, last.weight.to(dtype)).sigmoid()  # (distinct offsets, heads)
        return values[index.flatten()].t().reshape(-1, *index.shape)  # (heads, Nq, Nk)

    @torch.no_grad()
    def resized(self, window: Sequence[int]) -> Self:
        """The same function of offsets for another window: the weights stay, and so does the reach they know.

        Args:
            window: extent of the new window along each axis, in tokens.
        """
        first, _ = self._layers()
        resized = type(self)(window, self.num_heads, self.pretrained_window, first.out_features)
        resized.to(first.weight).load_state_dict(self.state_dict())
        return resized


@cached_geometry(maxsize=32)
def log_offsets(
    query_coords: Tensor, key_coords: Tensor, window: tuple[int, ...], known: tuple[int, ...], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The distinct offsets of queries from keys, log-spaced, and which of them each pair has.

    While a graph is traced, values cannot be read. Then as many places as the window has, the same for queries and
    keys, are taken to be the window's; for others each pair counts as distinct.

    Args:
        query_coords: places of the queries ``(Nq, D)``, in tokens.
        key_coords: places of the keys ``(Nk, D)``, in tokens.
        window: extent of the window along each axis, in tokens.
        known: extent along each axis of the window whose reach stands for 8, in tokens.
        dtype: of the offsets that are returned.

    Returns:
        Offsets ``(U, D)``, between -1.06 and 1.06 within that reach, and which of them stands for each pair
        ``(Nq, Nk)``, int64.
    """
    offset = query_coords[:, None] - key_coords[None]  # (Nq, Nk, D)
    pairs = offset.flatten(0, 1)
    if not (torch.compiler.is_compiling() or offset.is_meta):
        distinct, index = torch.unique(pairs, dim=0, return_inverse=True)
    elif query_coords is key_coords and len(query_coords) == math.prod(window):
        places = [torch.arange(1 - extent, extent, device=offset.device) for extent in window]
        distinct = torch.cartesian_prod(*places).view(-1, len(window))
        index = pairs.new_zeros(len(pairs))
        for axis, extent in enumerate(window):
            index = index * (2 * extent - 1) + pairs[:, axis] + extent - 1
    else:
        distinct, index = pairs, torch.arange(len(pairs), device=offset.device)
    reach = offset.new_tensor([max(extent - 1, 1) for extent in known], dtype=dtype)
    scaled = _REACH * distinct.to(dtype) / reach
    logarithms = scaled.sign() * (scaled.abs() + 1).log2() / math.log2(_REACH)
    return logarithms, index.view(offset.shape[:2])
