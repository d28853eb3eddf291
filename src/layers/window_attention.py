"""Multi-head attention within the windows of a map.

Shapes: B images, a map of H x W tokens with C channels, M windows of N tokens, heads of d = C / heads channels.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.position_bias import PositionBias
from src.layers.size import Size
from src.layers.windows import batch_regions, kept_shift, partition, reverse, window_coords, zero_outside

PaddedKeys = Literal["attend", "mask"]

_MOST_PER_CALL = 65_535  # beyond it, in batch or heads, CUDA's kernels crash: pytorch issue 142228


class WindowAttention(nn.Module):
    """Attention of each token to the tokens of its window, on maps of any size.

    Source: Liu et al., "Swin Transformer", 2021, section 3.2. Unlike the published code, tokens of another region are
    left out altogether (it lowers their logits by 100), and images of several sizes may share a batch.

    Args:
        dim: number of channels C.
        num_heads: number of heads; must divide ``dim``.
        window: height and width of a window, in tokens.
        position_bias: bias of the places in a window.
        shift: rows and columns by which the windows are shifted, in tokens.
        shift_covered: keep the shift along an axis that one window covers (as the published models do).
        padded_keys: ``attend``: the zeros that fill the last windows take part as keys (as in the published models);
            ``mask``: they do not.
        qkv_bias: give queries, keys and values a bias.
        attn_drop_rate: dropout of the attention weights, a fraction.
        drop_rate: dropout of the output, a fraction.
        windows_per_chunk: most windows (of all images) that attention works on at once; None: all. Bounds the memory of
            attention, changes nothing else.

    Raises:
        ValueError: an argument is out of range.
    """

    _scale: float | None = None  # of the logits; None: 1 / sqrt(d)

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window: Size,
        position_bias: PositionBias,
        shift: Size = (0, 0),
        shift_covered: bool = True,
        padded_keys: PaddedKeys = "attend",
        qkv_bias: bool = True,
        attn_drop_rate: float = 0.0,
        drop_rate: float = 0.0,
        windows_per_chunk: int | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or dim % num_heads:
            raise ValueError(f"num_heads must divide dim, got {num_heads} heads for {dim} channels; change either.")
        if min(window) < 1:
            raise ValueError(f"window must be at least 1 token high and wide, got {window}; give a larger one.")
        if not all(0 <= step < extent for step, extent in zip(shift, window, strict=True)):
            raise ValueError(
                f"shift must be at least 0 and smaller than the window {window}, got {shift}; half the window is usual."
            )
        if padded_keys not in get_args(PaddedKeys):
            raise ValueError(f"padded_keys must be attend or mask, got {padded_keys!r}; take one of these.")
        if windows_per_chunk is not None and windows_per_chunk < 1:
            raise ValueError(
                f"windows_per_chunk must be at least 1 or None, got {windows_per_chunk}; None takes all at once."
            )
        self.num_heads = num_heads
        self.window = window
        self.shift = shift
        self.shift_covered = shift_covered
        self.padded_keys = padded_keys
        self.windows_per_chunk = windows_per_chunk
        self.attn_drop_rate = attn_drop_rate
        self._make_qkv(dim, qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.position_bias = position_bias
        self.drop = nn.Dropout(drop_rate)

    def _make_qkv(self, dim: int, qkv_bias: bool) -> None:
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)

    def _project(self, windows: Tensor) -> Tensor:
        """Queries, keys and values ``(..., 3 C)`` of tokens ``(..., C)``."""
        return self.qkv(windows)

    def _comparable(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys ``(B, M, heads, N, d)`` in the form whose products, times the scale, are the logits."""
        return q, k

    def forward(self, x: Tensor, sizes: Sequence[Size] | None = None) -> Tensor:
        """Attends within windows.

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; what ``x`` holds beyond is not looked at. None: all
                images fill the map.

        Returns:
            Map ``(B, H, W, C)``; inside its true size each image has what it would have alone.
        """
        map_size = (x.shape[1], x.shape[2])
        x = zero_outside(x, sizes)
        sizes = [map_size] if sizes is None else sizes
        shifts = [kept_shift(self.shift, size, self.window, self.shift_covered) for size in sizes]
        if len(set(shifts)) == 1:
            return self._attend(x, sizes, shifts[0])
        groups = [[i for i, kept in enumerate(shifts) if kept == shift] for shift in dict.fromkeys(shifts)]
        parts = [self._attend(x[group], [sizes[i] for i in group], shifts[group[0]]) for group in groups]
        order = torch.tensor([i for group in groups for i in group], device=x.device).argsort()
        return torch.cat(parts)[order]

    def _attend(self, x: Tensor, sizes: Sequence[Size], shift: Size) -> Tensor:
        map_size = (x.shape[1], x.shape[2])
        regions = batch_regions(map_size, sizes, self.window, shift, self.padded_keys == "mask", x.device)
        coords = window_coords(self.window, x.device)
        bias = self.position_bias(coords, coords)  # (heads, N, N)
        windows = self._attend_in_chunks(partition(x, self.window, shift), bias, regions)
        return self.drop(self.proj(reverse(windows, map_size, self.window, shift)))

    def _attend_in_chunks(self, windows: Tensor, bias: Tensor, regions: Tensor | None) -> Tensor:
        limit = min(self.windows_per_chunk or _MOST_PER_CALL, _MOST_PER_CALL)
        images = min(len(windows), limit)
        places = min(windows.shape[1], limit // images, _MOST_PER_CALL // self.num_heads)
        if (images, places) == windows.shape[:2]:
            return self._attend_windows(windows, bias, regions)
        rows = []
        for i in range(0, len(windows), images):
            own = regions if regions is None or len(regions) == 1 else regions[i : i + images]
            row = []
            for j in range(0, windows.shape[1], places):
                part = windows[i : i + images, j : j + places]
                row.append(self._attend_windows(part, bias, None if own is None else own[:, j : j + places]))
            rows.append(torch.cat(row, 1))
        return torch.cat(rows)

    def _attend_windows(self, windows: Tensor, bias: Tensor, regions: Tensor | None) -> Tensor:
        """Windows ``(B, M, N, C)`` after attention, before the projection; regions ``(1 or B, M, N)``."""
        batch, count, tokens, channels = windows.shape
        qkv = self._project(windows).view(batch, count, tokens, 3, self.num_heads, -1)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)  # (B, M, heads, N, d) each
        q, k = self._comparable(q, k)
        bias = bias.to(q.dtype)
        if regions is None:
            q, k, v = (part.flatten(0, 1) for part in (q, k, v))  # (B * M, heads, N, d)
            mask = bias[None]
        else:
            # flattened one by one, so that v can be kept for the backward pass without q and k
            q, k, v = (part.flatten(1, 2) for part in (q, k, v))  # (B, M * heads, N, d)
            apart = regions[..., :, None] != regions[..., None, :]  # (1 or B, M, N, N)
            # finite, for a kernel may meet a block of keys that are all left out
            never = torch.finfo(bias.dtype).min / 2
            mask = bias.masked_fill(apart[:, :, None], never).flatten(1, 2)  # (1 or B, M * heads, N, N)
        dropout = self.attn_drop_rate if self.training else 0.0
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=self._scale)
        attended = attended.view(batch, count, self.num_heads, tokens, -1)
        return attended.transpose(2, 3).reshape(batch, count, tokens, channels)
