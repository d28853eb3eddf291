"""Losses of other libraries, which want logits of the masks' size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.models.settings import RecordsSettings


class FullSizeLoss(RecordsSettings, nn.Module):
    """A loss of full-size logits, e.g. ``segmentation_models_pytorch.losses.LovaszLoss``, on logits at a stride.

    The logits are resized as a whole, so that memory grows with classes times pixels. It is for losses that need all
    pixels at once, as Lovasz's, which sorts them. ``CrossEntropy``, ``OHEMCrossEntropy``, ``DiceLoss`` and
    ``TverskyLoss`` of this package give the same numbers in bands of rows.

    Args:
        loss: called with logits ``(B, K, H, W)`` and masks ``(B, H, W)``. Build another library's as
            ``src.models.settings.build_recorded(DiceLoss, mode="multiclass")``, so that a checkpoint can name it; the
            command line does so by itself.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Resize the logits bilinearly to the masks' size and score them.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64.

        Returns:
            What the loss gives, from scores in float32 or float64.
        """
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return self.loss(F.interpolate(logits, masks.shape[-2:], mode="bilinear", align_corners=False), masks)
