"""Cross-entropy of the hard pixels alone."""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from src.layers.banded_cross_entropy import Targets, banded_cross_entropy, banded_pixel_losses
from src.losses.masks import check_masks, weights_for, weights_of_classes
from src.losses.processes import divided_by_count
from src.models.settings import RecordsSettings


class OHEMCrossEntropy(RecordsSettings, nn.Module):
    """Mean cross-entropy of the pixels that the model finds hard (online hard example mining).

    Hard are the labelled pixels whose right class has a probability below ``threshold``; and where these are fewer than
    ``min_kept`` for each image, the hardest ones of the batch up to that number. The pixels of all images compete.

    The choice is that of HRNet and of mmseg's sampler where no two probabilities are equal. Two things differ.
    Pixels as hard as the last one kept are kept too, where there some go by chance; and where fewer pixels are labelled
    than must be kept all of them count, where there the easiest does not. The mean is over the kept pixels, as HRNet's.

    The choice needs the probability of the right class at every pixel, ``(B, H, W)``, so that training takes two passes
    over bands of rows. Processes that train together choose each among its own images, and divide by the pixels that
    all of them keep.

    Args:
        threshold: probability of the right class, 0 to 1, below which a pixel is hard.
        min_kept: number of pixels to keep at least, for each image of the batch.
        ignore_index: the mask value without a label; must not be a class.
        class_weights: a weight for each class, by which its pixels' loss is multiplied after the choice; None for 1
            each. The mean is then over the kept pixels' weights.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Raises:
        ValueError: an argument is out of its range.

    Example:
        >>> loss = OHEMCrossEntropy(threshold=0.9, min_kept=50_000)
    """

    class_weights: Tensor | None

    def __init__(
        self,
        threshold: float = 0.7,
        min_kept: int = 100_000,
        ignore_index: int = 255,
        class_weights: Sequence[float] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= threshold <= 1:
            raise ValueError(
                f"model.loss.threshold must be between 0 and 1, got {threshold}; it is a probability, 0.7 is usual."
            )
        if min_kept < 0:
            raise ValueError(f"model.loss.min_kept must not be negative, got {min_kept}; 0 keeps hard pixels alone.")
        self.threshold = threshold
        self.min_kept = min_kept
        self.ignore_index = ignore_index
        self.max_bytes = max_bytes
        self.register_buffer("class_weights", weights_of_classes(class_weights), persistent=False)

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Score the logits.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, int64, 0..K-1 or ``ignore_index``.

        Returns:
            The mean loss of the kept pixels, a scalar in float32 or float64; exactly 0 where none is kept.

        Raises:
            ValueError: the masks hold another value, or do not fit the logits; or the number of class weights or
                ``ignore_index`` does not fit the number of classes.
        """
        check_masks(logits, masks, self.ignore_index)
        weights = weights_for(logits, self.class_weights)
        labelled = masks != self.ignore_index
        classes = masks.where(labelled, 0)
        kept = self._hard(banded_pixel_losses(logits, classes, self.max_bytes), labelled)
        total = banded_cross_entropy(logits, Targets(classes, kept, weights), self.max_bytes)
        return divided_by_count(total, kept.sum() if weights is None else weights[classes].where(kept, 0).sum())

    def _hard(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Which pixels count, ``(B, H, W)`` bool."""
        hard = losses.isnan() | (losses > (-math.log(self.threshold) if self.threshold > 0 else math.inf))
        number = min(self.min_kept * len(losses), losses.numel())
        if number:
            # Unlabelled pixels come last; where they must be taken, all labelled ones are.
            lowest = (
                losses.nan_to_num(nan=math.inf)
                .where(labelled, -math.inf)
                .flatten()
                .topk(number, sorted=False)
                .values.min()
            )
            hard |= losses >= lowest
        return hard & labelled
