"""Cross-entropy at full size from logits at a stride, without ever holding full-size logits.

Shapes: B images of H x W pixels, K classes, logits of h x w cells.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn

from src.layers.banded_sum import banded_sum
from src.models.settings import RecordsSettings


class CrossEntropy(RecordsSettings, nn.Module):
    """Mean cross-entropy of logits resized bilinearly to the masks' size.

    The logits are resized and scored a band of rows at a time, and so is their gradient.

    Where processes train together, they average their gradients. So that the result is the joined batch's, the labelled
    pixels are then counted over all processes and divided by their number: every process must score its batch, as often
    as the others. Accumulated gradients still average the means of the steps, however many pixels each of them labels.

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

    class_weights: Tensor | None

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
            raise ValueError(
                f'model.loss.mean must be "labelled" or "all", got {mean!r}; "all" is the published recipe\'s.'
            )
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"model.loss.label_smoothing must be between 0 and 1, got {label_smoothing}; 0 is none.")
        if class_weights is not None and min(class_weights, default=0) < 0:
            raise ValueError(
                f"model.loss.class_weights must not be negative, got {list(class_weights)}; 0 leaves a class out."
            )
        self.ignore_index = ignore_index
        self.mean = mean
        self.label_smoothing = label_smoothing
        self.max_bytes = max_bytes
        weights = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32)
        self.register_buffer("class_weights", weights, persistent=False)

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Score the logits.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64, 0..K-1 or ``ignore_index``.

        Returns:
            The mean loss, a scalar in float32 or float64; exactly 0 where no pixel is labelled.

        Raises:
            ValueError: the masks hold another value, or do not fit the logits; or the number of class weights or
                ``ignore_index`` does not fit the number of classes. The masks' values are looked at on a CPU alone, for
                elsewhere each step would wait for the answer; there they are left to torch's own kernel (not tried on a
                GPU), and a run on the CPU shows the value.
        """
        self._check(logits, masks)
        weights = None
        if self.class_weights is not None:
            weights = self.class_weights.to(logits.device, torch.promote_types(logits.dtype, torch.float32))

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
        if self.mean == "all":
            return total / max(1, masks.numel())
        labelled = self._labelled(masks, weights).to(total.dtype)
        if total.requires_grad:
            labelled = _mean_over_processes(labelled)
        return total / labelled.where(labelled > 0, 1)

    def _labelled(self, masks: Tensor, weights: Tensor | None) -> Tensor:
        """Number of labelled pixels, or the sum of their weights."""
        labelled = masks != self.ignore_index
        if weights is None:
            return labelled.sum()
        return weights[masks.where(labelled, 0)].where(labelled, 0).sum()

    def _check(self, logits: Tensor, masks: Tensor) -> None:
        num_classes = logits.shape[1]
        if masks.ndim != 3 or masks.dtype != torch.int64 or len(masks) != len(logits):
            raise ValueError(
                f"masks must be int64 of shape (B, H, W) with B = {len(logits)}, "
                f"got {masks.dtype} of shape {tuple(masks.shape)}; give one mask of class ids per image."
            )
        if self.class_weights is not None and len(self.class_weights) != num_classes:
            raise ValueError(
                f"model.loss.class_weights must have one weight for each of {num_classes} classes, "
                f"got {len(self.class_weights)}; give them in the order of the classes."
            )
        if 0 <= self.ignore_index < num_classes:
            raise ValueError(
                f"model.loss.ignore_index must not be one of the classes 0..{num_classes - 1}, "
                f"got {self.ignore_index}; give the value that unlabelled pixels have in the masks."
            )
        if masks.device.type != "cpu":
            return
        low, high = torch.stack(torch.aminmax(masks.where(masks != self.ignore_index, 0))).tolist()
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"masks must hold 0..{num_classes - 1} or {self.ignore_index} (ignored), "
                f"got {low if low < 0 else high}; check the class ids of the data, or set model.loss.ignore_index."
            )


def _mean_over_processes(count: Tensor) -> Tensor:
    if not (distributed.is_available() and distributed.is_initialized()):
        return count
    distributed.all_reduce(count)
    return count / distributed.get_world_size()
