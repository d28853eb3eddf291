"""Cross-entropy at full size from logits at a stride, without ever holding full-size logits.

Shapes: B images of H x W pixels, K classes, logits of h x w cells.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from src.layers.banded_cross_entropy import Targets, banded_cross_entropy
from src.losses.masks import check_masks, weights_for, weights_of_classes
from src.losses.processes import divided_by_count
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
        self.ignore_index = ignore_index
        self.mean = mean
        self.label_smoothing = label_smoothing
        self.max_bytes = max_bytes
        self.register_buffer("class_weights", weights_of_classes(class_weights), persistent=False)

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
                elsewhere each step would wait for the answer; there they are left to torch's own kernels (not tried on
                a GPU), and a run on the CPU shows the value.
        """
        check_masks(logits, masks, self.ignore_index)
        weights = weights_for(logits, self.class_weights)
        labelled = masks != self.ignore_index
        classes = masks.where(labelled, 0)
        targets = Targets(classes, labelled, weights, self.label_smoothing)
        total = banded_cross_entropy(logits, targets, self.max_bytes)
        if self.mean == "all":
            return total / max(1, masks.numel())
        count = labelled.sum() if weights is None else weights[classes].where(labelled, 0).sum()
        return divided_by_count(total, count)
