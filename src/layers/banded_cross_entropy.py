"""Cross-entropy of full-size logits, which never exist whole, with a gradient made by hand.

The gradient of a pixel's cross-entropy is its softmax less its target, so that a band needs one softmax for both.

Shapes: logits are ``(B, K, h, w)``, targets ``(B, H, W)``; a band has P pixels of K scores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from src.layers.bands import Band, Scratch, bands, channels_last, image_groups

_TINY = 1e-30  # float32 keeps all its digits down to 1e-38


@dataclass(frozen=True)
class Targets:
    """What the pixels should be, and how much each counts.

    Args:
        classes: class of each pixel, ``(B, H, W)`` int64; any class where the pixel does not count.
        factors: by which each pixel's loss is multiplied, ``(B, H, W)`` bool or float; 0 where it does not count.
        class_weights: by which the loss of each class is multiplied, ``(K,)``, in float32 or float64; None for 1 each.
        label_smoothing: fraction of the target that is spread evenly over the classes, 0 to 1.
    """

    classes: Tensor
    factors: Tensor
    class_weights: Tensor | None = None
    label_smoothing: float = 0.0


def banded_cross_entropy(logits: Tensor, targets: Targets, max_bytes: int | None = None) -> Tensor:
    """The sum of the pixels' cross-entropies.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        targets: what the pixels should be.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        A scalar in float32 or float64. Its gradient is made along with it.
    """
    logits = logits if torch.is_grad_enabled() else logits.detach()  # the function below cannot see the mode
    return _CrossEntropy.apply(logits, targets, max_bytes)


@torch.no_grad()
def banded_pixel_losses(logits: Tensor, classes: Tensor, max_bytes: int | None = None) -> Tensor:
    """The cross-entropy of every pixel, without a gradient.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        classes: class of each pixel, ``(B, H, W)`` int64.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Losses ``(B, H, W)`` in float32 or float64: minus the logarithm of the probability of the right class.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.empty(classes.shape, dtype=dtype, device=logits.device)
    scratch = Scratch(logits)

    def write(scores: Tensor, band: Band, group: slice) -> None:
        own = classes[group, band.rows]
        losses[group, band.rows] = _right(scores, own.reshape(-1, 1), None, scratch)[1].view(own.shape)

    _each_band(logits, (classes.shape[-2], classes.shape[-1]), max_bytes, write, None)
    return losses


def _each_band(
    logits: Tensor,
    size: tuple[int, int],
    max_bytes: int | None,
    work: Callable[[Tensor, Band, slice], Tensor | None],
    gradient: Tensor | None,
) -> None:
    """Gives each band's scores ``(P, K)`` to ``work`` and adds what it returns to the cells' ``gradient``."""
    scratch = Scratch(logits)
    for group in image_groups(logits, size, max_bytes):
        own = logits[group]
        for band in bands(own, size, max_bytes=max_bytes):
            scores = band.mix(channels_last(own[:, :, band.source]), scratch)
            result = work(scores.flatten(0, 2), band, group)
            if gradient is not None and result is not None:
                band.add_gradient(result.view(scores.shape), gradient[group, band.source], scratch)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Targets, max_bytes: int | None) -> Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=logits.device)
        gradient = None
        if ctx.needs_input_grad[0]:
            gradient = total.new_zeros(logits.shape[0], *logits.shape[2:], logits.shape[1])
        scratch = Scratch(logits)

        def score(scores: Tensor, band: Band, group: slice) -> Tensor:
            classes = targets.classes[group, band.rows].reshape(-1, 1)
            factors = targets.factors[group, band.rows].to(dtype).reshape(-1, 1)
            part = _smoothed if targets.label_smoothing else _plain
            loss, pull = part(scores, classes, factors, targets, scratch)
            total.add_(loss)
            return pull

        _each_band(logits, (targets.classes.shape[-2], targets.classes.shape[-1]), max_bytes, score, gradient)
        ctx.save_for_backward(gradient)
        ctx.dtype, ctx.channels_last = logits.dtype, logits.is_contiguous(memory_format=torch.channels_last)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        result = (gradient * factor).to(ctx.dtype)
        if not ctx.channels_last and len(result):
            # In tiles, see bands.channels_last.
            images = [cells.flatten(0, 1).t().contiguous().view(-1, *cells.shape[:2]) for cells in result]
            return torch.stack(images), None, None
        return result.permute(0, 3, 1, 2), None, None


def _right(scores: Tensor, classes: Tensor, factors: Tensor | None, scratch: Scratch) -> tuple[Tensor, Tensor]:
    """Softmax ``(P, K)``, which the next band overwrites, and the loss ``(P, 1)`` of the classes."""
    if scores.device.type != "cpu":
        log_softmax = torch.log_softmax(scores, 1)
        loss = -log_softmax.gather(1, classes)
        return log_softmax.exp_(), loss
    softmax = torch.softmax(scores, 1, out=scratch.take("softmax", tuple(scores.shape), scores.dtype))
    right = softmax.gather(1, classes)
    counted = right if factors is None else right.where(factors != 0, 1)
    if bool((counted > _TINY).all()):
        return softmax, right.log_().neg_()
    return softmax, scores.logsumexp(1, keepdim=True) - scores.gather(1, classes)


def _plain(
    scores: Tensor, classes: Tensor, factors: Tensor, targets: Targets, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """The band's loss and the gradient of its scores."""
    gradient, loss = _right(scores, classes, factors, scratch)
    if targets.class_weights is not None:
        factors = factors * targets.class_weights[classes]
    gradient.scatter_(1, classes, gradient.gather(1, classes) - 1)
    if scores.device.type != "cpu" or bool((factors != 1).any()):
        gradient.mul_(factors)
    return (loss * factors).where(factors != 0, 0).sum(), gradient


def _smoothed(
    scores: Tensor, classes: Tensor, factors: Tensor, targets: Targets, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """The same with a part of the target spread over all classes."""
    logs = torch.log_softmax(scores, 1, out=scratch.take("softmax", tuple(scores.shape), scores.dtype))
    weights = targets.class_weights
    if weights is None:
        weights = scores.new_ones(scores.shape[1])
    spread = factors * (targets.label_smoothing / scores.shape[1])
    aimed = factors * weights[classes] * (1 - targets.label_smoothing)
    loss = -(aimed * logs.gather(1, classes)).where(aimed != 0, 0).sum()
    loss -= (spread * (logs * weights).sum(1, keepdim=True)).where(spread != 0, 0).sum()
    gradient = logs.exp_().mul_(aimed + spread * weights.sum())
    gradient.scatter_(1, classes, gradient.gather(1, classes) - aimed)
    return loss, gradient.addcmul_(spread, weights, value=-1)
