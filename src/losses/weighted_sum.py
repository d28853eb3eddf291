"""Several losses as one."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from src.models.settings import RecordsSettings


class WeightedSum(RecordsSettings, nn.Module):
    """The sum of losses, each multiplied by its weight.

    Args:
        losses: modules of ``(logits (B, K, h, w), masks (B, H, W))``, each of which goes over the bands of rows itself.
        weights: a factor for each loss, in their order; None for 1 each.

    Raises:
        ValueError: there is no loss, or not one weight for each.

    Example:
        >>> from src.losses import CrossEntropy, DiceLoss
        >>> loss = WeightedSum([CrossEntropy(), DiceLoss()], weights=[1.0, 3.0])
    """

    def __init__(self, losses: Sequence[nn.Module], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        if not losses:
            raise ValueError("model.loss.losses must hold at least one loss, got none; name each by its class_path.")
        if weights is not None and len(weights) != len(losses):
            raise ValueError(
                f"model.loss.weights must have one weight for each of {len(losses)} losses, got {len(weights)}; "
                f"give them in the order of the losses."
            )
        self.losses = nn.ModuleList(losses)
        self.weights = [1.0] * len(losses) if weights is None else list(weights)

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Score the logits.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64.

        Returns:
            The weighted sum, a scalar in float32 or float64.
        """
        parts = [weight * loss(logits, masks) for weight, loss in zip(self.weights, self.losses, strict=True)]
        return torch.stack(parts).sum()
