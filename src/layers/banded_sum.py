"""Sums over all pixels of what is made of full-size logits, which never exist whole, not even for the gradient.

Shapes: logits are ``(B, K, h, w)``, scores ``(B, K, rows, W)``, a band of them at full size.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from src.layers.bands import bands
from src.layers.size import Size

Score = Callable[[Tensor, slice], Tensor]
"""Takes scores ``(B, K, rows, W)`` and which rows these are, gives sums ``(n,)``."""


def banded_sums(logits: Tensor, size: Size, score: Score, max_bytes: int | None = None) -> Tensor:
    """The sums of several scores over bands of the logits resized to ``size``, for losses that are functions of them.

    What such a loss asks of a pixel is known only once all pixels are summed. So there are two passes: one for the
    sums, and in the backward another, in which each band is made again. Of the first nothing is kept but the logits.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        size: height and width in pixels.
        score: what to sum, ``(n,)``; must depend on its rows alone and give the same again.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Sums ``(n,)`` in float32 or float64.
    """
    return _BandedSums.apply(logits, size, score, max_bytes)


class _BandedSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, size: Size, score: Score, max_bytes: int | None) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.arguments = size, score, max_bytes
        parts = (
            score(band.resized(logits[:, :, band.source]), band.rows) for band in bands(logits, size, None, max_bytes)
        )
        return functools.reduce(torch.add, parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factors: Tensor) -> tuple[Tensor, None, None, None]:
        (logits,), (size, score, max_bytes) = ctx.saved_tensors, ctx.arguments
        gradient = torch.zeros_like(logits, dtype=torch.promote_types(logits.dtype, torch.float32))
        for band in bands(logits, size, max_bytes=max_bytes):
            source = logits[:, :, band.source].detach().requires_grad_()
            with torch.enable_grad():
                part = score(band.resized(source), band.rows)
            gradient[:, :, band.source] += torch.autograd.grad(part, source, factors)[0]
        return gradient.to(logits.dtype), None, None, None
