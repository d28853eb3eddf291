"""How often each class is taken for each, counted in one pass over the pixels.

Shapes: B images of H x W pixels, K classes, logits of h x w cells.
"""

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from src.layers.banded_labels import banded_labels


def confusion_counts(predictions: Tensor, masks: Tensor, num_classes: int, ignore_index: int = 255) -> Tensor:
    """Pixel counts of every label and prediction, by one count over both.

    Pixels without a label fall into a bin of their own, so that nothing is picked out first.

    Args:
        predictions: label maps of any shape, any integer type, 0..K-1.
        masks: labels of the same shape, any integer type, 0..K-1 or ``ignore_index``.
        num_classes: number of classes, K.
        ignore_index: the mask value without a label; must not be a class.

    Returns:
        Counts ``(K, K)``, int64; rows are labels, columns are predictions.

    Raises:
        ValueError: the shapes differ, ``ignore_index`` is a class, or a pixel holds no class.
    """
    if predictions.shape != masks.shape:
        raise ValueError(
            f"predictions must have the shape of the masks, {tuple(masks.shape)}, got {tuple(predictions.shape)}; "
            f"give label maps at the masks' size."
        )
    if 0 <= ignore_index < num_classes:
        raise ValueError(
            f"ignore_index must not be one of the classes 0..{num_classes - 1}, got {ignore_index}; give the value "
            f"that unlabelled pixels have in the masks."
        )
    predictions, masks = predictions.flatten().long(), masks.flatten().long()
    # Unlabelled pixels get the row on the side where ignore_index lies; the other side shows what is no class.
    marker = num_classes if ignore_index < 0 else -1
    rows = masks.where(masks != ignore_index, marker)
    _check_ids(predictions, *((rows, masks) if ignore_index < 0 else (masks, rows)), num_classes, ignore_index)
    shape = num_classes + 1, num_classes
    if marker < 0:
        bins = torch.add(predictions, rows, alpha=num_classes).add_(num_classes)
        return torch.bincount(bins, minlength=shape[0] * shape[1]).view(shape)[1:]
    bins = torch.add(predictions, rows, alpha=num_classes)
    return torch.bincount(bins, minlength=shape[0] * shape[1]).view(shape)[:-1]


def _check_ids(predictions: Tensor, low: Tensor, high: Tensor, num_classes: int, ignore_index: int) -> None:
    """Looks at the least of ``low`` and the largest of ``high``, beside the predictions."""
    if not predictions.numel():
        return
    # Counting waits for the device anyhow.
    least, most, lowest, highest = torch.stack([*torch.aminmax(predictions), low.min(), high.max()]).tolist()
    if least < 0 or most >= num_classes:
        raise ValueError(
            f"predictions must hold 0..{num_classes - 1}, got {least}..{most}; give the label maps of a model with "
            f"this number of classes."
        )
    if lowest < 0 or highest >= num_classes:
        raise ValueError(
            f"masks must hold 0..{num_classes - 1} or {ignore_index} (ignored), "
            f"got {lowest if lowest < 0 else highest}; check the class ids of the data."
        )


def banded_confusion(logits: Tensor, masks: Tensor, ignore_index: int = 255, max_bytes: int | None = None) -> Tensor:
    """Pixel counts of every label and prediction, from logits in bands of rows.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type; resized bilinearly to the masks' size.
        masks: labels ``(B, H, W)``, any integer type, 0..K-1 or ``ignore_index``.
        ignore_index: the mask value without a label; must not be a class.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Counts ``(K, K)``, int64; rows are labels, columns are predictions.

    Raises:
        ValueError: ``ignore_index`` is a class, or a pixel of the masks holds no class.
    """
    labels, _ = banded_labels(logits, (masks.shape[-2], masks.shape[-1]), None, max_bytes)
    return confusion_counts(labels, masks, logits.shape[1], ignore_index)


def pixel_accuracy(logits: Tensor, masks: Tensor, ignore_index: int = 255, max_bytes: int | None = None) -> Tensor:
    """Share of the labelled pixels whose best class is the right one, from logits in bands of rows.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type; resized bilinearly to the masks' size.
        masks: labels ``(B, H, W)``, any integer type, 0..K-1 or ``ignore_index``.
        ignore_index: the mask value without a label.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        A scalar, float32, 0..1; NaN where no pixel is labelled.
    """
    labels, _ = banded_labels(logits, (masks.shape[-2], masks.shape[-1]), None, max_bytes)
    labelled = masks != ignore_index
    return ((labels == masks) & labelled).sum() / labelled.sum()


class PixelConfusion(MulticlassConfusionMatrix):
    """A confusion matrix over a set of label maps, several times as fast to update as its base.

    State, result and the sum over processes are those of the base; an update makes no tensor larger than its pixels.

    Args:
        num_classes: number of classes, K.
        ignore_index: the mask value without a label; must not be a class.
    """

    def __init__(self, num_classes: int, ignore_index: int = 255) -> None:
        super().__init__(num_classes, ignore_index=ignore_index, validate_args=False)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Counts some label maps.

        Args:
            preds: label maps of any shape, any integer type, 0..K-1.
            target: labels of the same shape, any integer type, 0..K-1 or ``ignore_index``.

        Raises:
            ValueError: the shapes differ, or a pixel holds no class.
        """
        ignore_index: int = self.ignore_index  # type: ignore[assignment]
        self.confmat += confusion_counts(preds, target, self.num_classes, ignore_index)

    def update_from_logits(self, logits: Tensor, masks: Tensor) -> None:
        """Counts the best classes of logits, resized bilinearly to the masks' size in bands of rows.

        Args:
            logits: scores ``(B, K, h, w)`` at any stride, any floating type.
            masks: labels ``(B, H, W)``, any integer type, 0..K-1 or ``ignore_index``.

        Raises:
            ValueError: a pixel of the masks holds no class.
        """
        self.update(banded_labels(logits, (masks.shape[-2], masks.shape[-1]))[0], masks)
