"""What layouts do to the values of weights: other orders, joined and split tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor

from src.weights.layouts.layout import Change


def _grid(tensors: Sequence[Tensor]) -> list[Tensor]:
    (embed,) = tensors
    if embed.ndim not in (3, 4) or len(embed) != 1:
        raise ValueError("be (1, tokens, channels) or (1, channels, height, width)")
    return [embed if embed.ndim == 4 else embed.transpose(1, 2).unsqueeze(2).contiguous()]


def _row(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [_of_dimensions(tensors[0], 4).flatten(2).transpose(1, 2).contiguous()]


def _of_dimensions(tensor: Tensor, count: int) -> Tensor:
    if tensor.ndim != count:
        raise ValueError(f"have {count} dimensions")
    return tensor


ROW = Change(_grid, _row)
"""An absolute position embedding, theirs ``(1, H * W, C)`` (or as ours), ours ``(1, C, H, W)``.

Theirs do not tell their grid, so they become ``(1, C, 1, H * W)``.
"""

GRID = Change(_grid, lambda tensors: tensors)
"""An absolute position embedding, ``(1, C, H, W)`` on both sides; theirs may come as in ``ROW``."""


def _fused(tensors: Sequence[Tensor]) -> list[Tensor]:
    if len({tensor.shape for tensor in tensors}) != 1:
        raise ValueError("be of one shape")
    return [torch.cat(list(tensors))]


def _thirds(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.ndim == 0 or len(tensor) % 3:
        raise ValueError("have queries, keys and values one after the other, three equal parts")
    return tensor.chunk(3)


# copies, for views of one tensor cannot be saved apart
FUSED = Change(_fused, lambda tensors: [part.clone() for part in _thirds(tensors[0])])
"""Queries, keys and values, theirs apart, ours one after the other."""


def _without_key(tensors: Sequence[Tensor]) -> list[Tensor]:
    query, _, value = _thirds(tensors[0])
    return [query.clone(), value.clone()]


def _with_key(tensors: Sequence[Tensor]) -> list[Tensor]:
    query, value = tensors
    return _fused([query, torch.zeros_like(query), value])


KEY_BIAS = Change(_without_key, _with_key)
"""The biases of queries and values; theirs has a third for the keys between them that is not used."""


def _to_columns(tensors: Sequence[Tensor]) -> list[Tensor]:
    merge = _of_quarters(tensors[0])
    by_channel = merge.unflatten(-1, (-1, 4))[..., [0, 2, 1, 3]]  # (..., C, 4): TL, BL, TR, BR
    return [by_channel.transpose(-1, -2).flatten(-2).contiguous()]


def _to_unfolded(tensors: Sequence[Tensor]) -> list[Tensor]:
    merge = _of_quarters(tensors[0])
    by_place = merge.unflatten(-1, (4, -1))[..., [0, 2, 1, 3], :]  # (..., 4, C): TL, TR, BL, BR
    return [by_place.transpose(-1, -2).flatten(-2).contiguous()]


def _of_quarters(merge: Tensor) -> Tensor:
    if merge.ndim == 0 or merge.shape[-1] % 4:
        raise ValueError("have four times as many inputs as there are channels")
    return merge


UNFOLDED = Change(_to_columns, _to_unfolded)
"""The 4 C inputs of a merge: theirs channel by channel with places row by row, ours place by place, columns first."""
