"""Losses of how far the predicted and the labelled regions of each class overlap."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from src.layers.banded_sum import banded_sums
from src.losses.masks import check_masks, weights_for, weights_of_classes
from src.losses.processes import joined_sums
from src.models.settings import RecordsSettings


class TverskyLoss(RecordsSettings, nn.Module):
    """One less the soft Tversky index, TP / (TP + alpha FP + beta FN), of each class over the whole batch.

    TP, FP and FN are sums of softmax probabilities over the labelled pixels, of logits resized bilinearly to the masks'
    size, in bands of rows. (Salehi et al. 2017, https://arxiv.org/abs/1706.05721, equation 3)

    The numbers are those of ``segmentation_models_pytorch.losses.TverskyLoss(mode="multiclass")`` on full-size logits,
    save that half-precision logits are scored in float32, that a batch without labels gives 0 without NaN for every
    ``gamma``, and that several processes together give the loss of the joined batch, for which each must score as often
    as the others. As there, a class without a labelled pixel has the loss 0; ``mean`` says whether the mean counts it.
    As there, ``gamma`` is applied to the mean, not to each class.

    Args:
        alpha: weight of pixels that are wrongly of the class.
        beta: weight of pixels that are wrongly not of the class.
        gamma: exponent of the mean over the classes.
        mean: over ``all`` classes, or over those that are ``labelled`` in the batch.
        log_loss: whether each class counts minus the index's logarithm, in place of one less the index.
        smooth: added to numerator and denominator, in pixels.
        eps: least denominator, and least index whose logarithm is taken.
        ignore_index: the mask value without a label; must not be a class.
        class_weights: a weight for each class in the mean; None for 1 each.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Raises:
        ValueError: an argument is out of its range.
    """

    class_weights: Tensor | None

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        gamma: float = 1.0,
        mean: Literal["all", "labelled"] = "all",
        log_loss: bool = False,
        smooth: float = 0.0,
        eps: float = 1e-7,
        ignore_index: int = 255,
        class_weights: Sequence[float] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("alpha", alpha), ("beta", beta), ("smooth", smooth)):
            if value < 0:
                raise ValueError(f"model.loss.{name} must not be negative, got {value}; 0 leaves it out.")
        for name, value in (("gamma", gamma), ("eps", eps)):
            if value <= 0:
                raise ValueError(f"model.loss.{name} must be more than 0, got {value}; leave it out for the default.")
        if mean not in ("all", "labelled"):
            raise ValueError(
                f'model.loss.mean must be "all" or "labelled", got {mean!r}; "labelled" leaves absent classes out.'
            )
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.mean, self.log_loss = mean, log_loss
        self.smooth, self.eps = smooth, eps
        self.ignore_index, self.max_bytes = ignore_index, max_bytes
        self.register_buffer("class_weights", weights_of_classes(class_weights), persistent=False)

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Score the logits.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64, 0..K-1 or ``ignore_index``.

        Returns:
            The loss, a scalar in float32 or float64; exactly 0 where no pixel is labelled.

        Raises:
            ValueError: the masks hold another value, or do not fit the logits; or the number of class weights or
                ``ignore_index`` does not fit the number of classes.
        """
        check_masks(logits, masks, self.ignore_index)
        class_weights = weights_for(logits, self.class_weights)
        right, predicted, labelled = joined_sums(self._sums(logits, masks))
        index = (right + self.smooth) / (
            right + self.alpha * (predicted - right) + self.beta * (labelled - right) + self.smooth
        ).clamp_min(self.eps)
        losses = -index.clamp_min(self.eps).log() if self.log_loss else 1 - index
        present = labelled > 0
        weights = torch.ones_like(losses) if class_weights is None else class_weights
        counted = weights if self.mean == "all" else weights * present
        whole = counted.sum()
        mean = (losses * present * weights).sum() / whole.where(whole > 0, 1)
        # A root has no finite slope at 0.
        return mean if self.gamma == 1 else mean.where(mean > 0, 1) ** self.gamma * (mean > 0)

    def _sums(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Of each class over the labelled pixels: probability in its own, probability in all, number ``(3, K)``."""
        num_classes = logits.shape[1]
        counted = masks != self.ignore_index
        classes = masks.where(counted, 0)

        def score(scores: Tensor, rows: slice) -> Tensor:
            own = classes[:, rows].reshape(-1, 1)
            probabilities = scores.permute(0, 2, 3, 1).flatten(0, 2).softmax(1)
            probabilities = probabilities * counted[:, rows].reshape(-1, 1)
            right = probabilities.gather(1, own)[:, 0]
            return torch.cat([right.new_zeros(num_classes).index_add(0, own[:, 0], right), probabilities.sum(0)])

        sums = banded_sums(logits, (masks.shape[-2], masks.shape[-1]), score, self.max_bytes)
        number = sums.new_zeros(num_classes).index_add(0, classes.flatten(), counted.flatten().to(sums.dtype))
        return torch.cat([sums, number]).view(3, num_classes)


class DiceLoss(TverskyLoss):
    """One less the soft Dice index, 2 TP / (2 TP + FP + FN), of each class over the whole batch.

    ``TverskyLoss`` with ``alpha`` and ``beta`` of a half, and with the numbers of
    ``segmentation_models_pytorch.losses.DiceLoss(mode="multiclass")``; what differs from it is said there.

    Args:
        mean: over ``all`` classes, or over those that are ``labelled`` in the batch.
        log_loss: whether each class counts minus the index's logarithm, in place of one less the index.
        smooth: added to numerator and to denominator, in pixels.
        eps: least denominator, and least index whose logarithm is taken.
        ignore_index: the mask value without a label; must not be a class.
        class_weights: a weight for each class in the mean; None for 1 each.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        mean: Literal["all", "labelled"] = "all",
        log_loss: bool = False,
        smooth: float = 0.0,
        eps: float = 1e-7,
        ignore_index: int = 255,
        class_weights: Sequence[float] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(
            mean=mean,
            log_loss=log_loss,
            smooth=smooth,
            eps=eps,
            ignore_index=ignore_index,
            class_weights=class_weights,
            max_bytes=max_bytes,
        )
