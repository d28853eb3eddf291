"""Cross-entropy at full size from logits at a stride, without ever holding full-size logits.

Shapes: B images of H x W pixels, K classes, logits of h x w cells.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.banded_sum import banded_sum


class CrossEntropy(nn.Module):
    """Mean cross-entropy of logits resized bilinearly to the masks' size.

    The logits are resized and scored a band of rows at a time, and so is their gradient.

    Args:
        ignore_index: the mask value without a label; must not be a class.
        mean: what the sum is divided by: ``labelled`` pixels (their summed class weights where there are weights, as
            in torch) or ``all`` pixels, the ignored ones too, as in the published recipe.
        class_weights: a weight for each class, by which its pixels' loss is multiplied; None for 1 each.
        label_smoothing: fraction of the target that is spread evenly over the classes, 0 to 1.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        ignore_index: int = 255,
        mean: Literal["labelled", "all"] = "labelled",
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__()
        if mean not in ("labelled", "all"):
            raise ValueError(f'loss.mean must be "labelled" or "all", got {mean!r}.')
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"loss.label_smoothing must be between 0 and 1, got {label_smoothing}.")
        if class_weights is not None and min(class_weights, default=0) < 0:
            raise ValueError(f"loss.class_weights must not be negative, got {list(class_weights)}.")
        self.ignore_index = ignore_index
        self.mean = mean
        self.label_smoothing = label_smoothing
        self.max_bytes = max_bytes
        self.class_weights = None if class_weights is None else tuple(class_weights)

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Score the logits.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64, 0..K-1 or ``ignore_index``.

        Returns:
            The mean loss, a scalar in float32 or float64; exactly 0 where no pixel is labelled.

        Raises:
            ValueError: the masks hold another value, or do not fit the logits; or the number of class weights or
                ``ignore_index`` does not fit the number of classes.
        """
        self._check(logits, masks)
        weights = None
        if self.class_weights is not None:
            weights = logits.new_tensor(self.class_weights, dtype=torch.promote_types(logits.dtype, torch.float32))

        def band_loss(scores: Tensor, rows: slice) -> Tensor:
            return F.cross_entropy(
                scores.permute(0, 2, 3, 1).flatten(0, 2),  # (B, K, rows, W) -> (B * rows * W, K), no copy
                masks[:, rows].flatten(),
                weight=weights,
                ignore_index=self.ignore_index,
                reduction="sum",
                label_smoothing=self.label_smoothing,
            )

        total = banded_sum(logits, (masks.shape[-2], masks.shape[-1]), band_loss, self.max_bytes)
        divisor = self._divisor(masks, weights)
        return total / divisor.where(divisor > 0, 1)

    def _divisor(self, masks: Tensor, weights: Tensor | None) -> Tensor:
        if self.mean == "all":
            return torch.tensor(masks.numel(), device=masks.device)
        labelled = masks != self.ignore_index
        if weights is None:
            return labelled.sum()
        return weights[masks.where(labelled, 0)].where(labelled, 0).sum()

    def _check(self, logits: Tensor, masks: Tensor) -> None:
        num_classes = logits.shape[1]
        if masks.ndim != 3 or masks.dtype != torch.int64 or len(masks) != len(logits):
            raise ValueError(
                f"masks must be int64 of shape (B, H, W) with B = {len(logits)}, "
                f"got {masks.dtype} of shape {tuple(masks.shape)}."
            )
        if self.class_weights is not None and len(self.class_weights) != num_classes:
            raise ValueError(
                f"loss.class_weights must have one weight for each of {num_classes} classes, "
                f"got {len(self.class_weights)}."
            )
        if 0 <= self.ignore_index < num_classes:
            raise ValueError(
                f"loss.ignore_index must not be one of the classes 0..{num_classes - 1}, got {self.ignore_index}."
            )
        low, high = torch.stack(torch.aminmax(masks.where(masks != self.ignore_index, 0))).tolist()
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"masks must hold 0..{num_classes - 1} or {self.ignore_index} (ignored), "
                f"got {low if low < 0 else high}; check the class ids of the data, or set loss.ignore_index."
            )
