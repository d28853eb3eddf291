"""Multi-head attention within the windows of a map.

Shapes: B images, a map of H x W tokens with C channels, T = B H W; M windows of N tokens in the order of
``src.layers.window_order``, heads of d = C / heads channels.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from src.layers.derived import Derived
from src.layers.masked_attention import attend
from src.layers.position_bias import PositionBias
from src.layers.precision import working_dtype
from src.layers.size import Size
from src.layers.untouched import hooked, untouched
from src.layers.window_order import WindowGroup, WindowOrder, window_order
from src.layers.windows import kept_shift, window_coords, zero_outside

PaddedKeys = Literal["attend", "mask"]
Norm = Callable[[Tensor], Tensor]

_MOST_PER_CALL = 65_535  # beyond it, in batch or heads, CUDA's kernels crash: pytorch issue 142228
_CPU_PIECE, _DEVICE_PIECE = 2**23, 2**27  # bytes of queries, keys and values in work; the second is not measured


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
        self._masks: Derived[list[Tensor]] = Derived()

    def train(self, mode: bool = True) -> Self:
        """Sets the mode, see ``torch.nn.Module``.

        Args:
            mode: True to train.
        """
        self._masks.clear()
        return super().train(mode)

    def _make_qkv(self, dim: int, qkv_bias: bool) -> None:
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)

    def _project(self, tokens: Tensor) -> Tensor:
        """Queries, keys and values ``(..., 3 C)`` of tokens ``(..., C)``."""
        return self.qkv(tokens)

    def _projected_padding(self) -> Tensor | None:
        """What ``_project`` makes of zeros ``(3 C,)``; None for zeros."""
        if untouched(self.qkv, nn.Linear):
            return self.qkv.bias
        return self._project(self.proj.weight.new_zeros(1, self.proj.in_features))[0]

    def _comparable(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys ``(M, heads, N, d)`` in the form whose products, times the scale, are the logits."""
        return q, k

    def forward(
        self,
        x: Tensor,
        sizes: Sequence[Size] | None = None,
        norm: Norm | None = None,
        recompute_norm: bool = False,
    ) -> Tensor:
        """Attends within windows.

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; what ``x`` holds beyond is not looked at. None: all
                images fill the map.
            norm: of the tokens ``(..., C)`` one by one, before all else; None: without.
            recompute_norm: make its output again for the backward pass and do not keep it; changes no number. Not
                where ``sizes`` leave padding.

        Returns:
            Map ``(B, H, W, C)``; inside its true size each image has what it would have alone.
        """
        map_size = (x.shape[1], x.shape[2])
        sizes = [map_size] if sizes is None else sizes
        if norm is not None and any(size != map_size for size in sizes):
            x, norm = norm(x), None
        x = zero_outside(x, sizes)
        shifts = [kept_shift(self.shift, size, self.window, self.shift_covered) for size in sizes]
        if len(set(shifts)) == 1:
            return self._attend(x, sizes, shifts[0], norm, recompute_norm)
        groups = [[i for i, kept in enumerate(shifts) if kept == shift] for shift in dict.fromkeys(shifts)]
        parts = [self._attend(x[group], [sizes[i] for i in group], shifts[group[0]]) for group in groups]
        order = torch.tensor([i for group in groups for i in group], device=x.device).argsort()
        return torch.cat(parts)[order]

    def _attend(
        self, x: Tensor, sizes: Sequence[Size], shift: Size, norm: Norm | None = None, recompute_norm: bool = False
    ) -> Tensor:
        masked = self.padded_keys == "mask"
        layout = ((x.shape[1], x.shape[2]), tuple(sizes), self.window, shift, masked, x.device)
        order = window_order(len(x), *layout)
        masks = self._group_masks(order, (layout, working_dtype(x)))
        tokens = x.flatten(0, 2)  # (T, C)
        piece_bytes = _CPU_PIECE if x.device.type == "cpu" else _DEVICE_PIECE
        row_bytes = 3 * x.shape[-1] * x.element_size()
        inference = not (torch.is_grad_enabled() or torch.compiler.is_compiling())
        if inference and len(order.tokens) * row_bytes > piece_bytes:
            return self._attend_in_pieces(tokens, order, masks, norm, piece_bytes // row_bytes).view(x.shape)
        return self._attend_whole(tokens, order, masks, norm, recompute_norm).view(x.shape)

    def _group_masks(self, order: WindowOrder, options: tuple[Hashable, torch.dtype]) -> list[Tensor]:
        """What is added to the logits of each group of windows ``(1, heads, N, N)``, in the queries' dtype."""

        def make() -> list[Tensor]:
            coords = window_coords(self.window, order.tokens.device)
            bias = self.position_bias(coords, coords)  # (heads, N, N)
            return [_mask(bias, group.apart, options[1]) for group in order.groups]

        bias = self.position_bias
        if self.training or torch.is_grad_enabled() or any(map(hooked, bias.modules())):
            self._masks.clear()  # an optimizer may be about to change the bias unseen
            return make()
        return self._masks.get([*bias.parameters(), *bias.buffers()], (options, bias.constants), make)

    def _attend_whole(
        self, tokens: Tensor, order: WindowOrder, masks: list[Tensor], norm: Norm | None, recompute_norm: bool
    ) -> Tensor:
        """Tokens ``(T, C)`` after norm, attention and its projection."""
        if norm is None:
            qkv = self._project(tokens)
        elif recompute_norm and torch.is_grad_enabled():
            qkv = checkpoint(self._project_normed, tokens, norm, use_reentrant=False, preserve_rng_state=False)
        else:
            qkv = self._project_normed(tokens, norm)
        windows = order.into_windows(qkv, self._projected_padding())  # (M * N, 3 C)
        del qkv
        windows = windows.view(-1, masks[0].shape[-1], windows.shape[-1])
        parts = []
        for group, mask in zip(order.groups, masks, strict=True):
            parts += [self._attend_windows(windows[a:b], mask) for a, b in self._chunks(group, _MOST_PER_CALL)]
        attended = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self.drop(self.proj(order.out_of_windows(attended.flatten(0, 1))))

    def _project_normed(self, tokens: Tensor, norm: Norm) -> Tensor:
        return self._project(norm(tokens))

    def _attend_in_pieces(
        self, tokens: Tensor, order: WindowOrder, masks: list[Tensor], norm: Norm | None, most: int
    ) -> Tensor:
        """The same where no gradient is wanted, with no more than about ``most`` tokens in work at a time."""
        num_tokens, window = len(tokens), masks[0].shape[-1]
        out: Tensor | None = None
        for group, mask in zip(order.groups, masks, strict=True):
            for start, stop in self._chunks(group, max(most // window, 1)):
                rows = order.tokens[start * window : stop * window]
                part = tokens.index_select(0, rows.clamp(max=num_tokens - 1))
                part = part if norm is None else norm(part)
                if order.padding is not None:
                    part = part.masked_fill((rows == num_tokens)[:, None], 0)
                windows = self._project(part).view(stop - start, window, -1)
                done = self.drop(self.proj(self._attend_windows(windows, mask).flatten(0, 1)))
                # one more row, for what is made of padding
                out = done.new_empty(num_tokens + 1, done.shape[-1]) if out is None else out
                out.index_copy_(0, rows, done)
        assert out is not None
        return out[:num_tokens]

    def _chunks(self, group: WindowGroup, most: int) -> Iterator[tuple[int, int]]:
        step = min(self.windows_per_chunk or most, most)
        if group.stop - group.start <= step:  # without a loop, which would tie a compiled graph to one size
            yield group.start, group.stop
            return
        for start in range(group.start, group.stop, step):
            yield start, min(start + step, group.stop)

    def _attend_windows(self, windows: Tensor, mask: Tensor) -> Tensor:
        """Windows ``(M, N, C)`` after attention, before its projection, of projected ones ``(M, N, 3 C)``."""
        qkv = windows.view(*windows.shape[:2], 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (M, heads, N, d) each
        q, k = self._comparable(q, k)
        dropout = self.attn_drop_rate if self.training else 0.0
        return attend(q, k, v, mask, dropout, self._scale).transpose(1, 2).flatten(2)


def _mask(bias: Tensor, apart: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Bias and regions joined ``(1, heads, N, N)``, in the queries' dtype, which some kernels take for granted."""
    mask = bias.to(dtype)[None]
    # finite, for a kernel may meet a block of keys that are all left out
    return mask if apart is None else mask.masked_fill(apart, torch.finfo(dtype).min / 2)
