"""All scores of a set of label maps, from one confusion matrix over the whole set."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Scores of a set of label maps, as fractions in 0..1.

    A class that stands in no label and no prediction is absent: its own scores are NaN, and no mean counts it. A class
    that is predicted but never labelled has an IoU of 0, which counts, and an accuracy of NaN, which does not.

    Attributes:
        iou: intersection over union of each class, ``(num_classes,)``.
        class_accuracy: share of each class' labelled pixels that are predicted right, ``(num_classes,)``.
        pixels: labelled pixels of each class, ``(num_classes,)`` int64.
        miou: mean of ``iou`` over the classes that are present.
        accuracy: share of all labelled pixels that are predicted right.
        mean_accuracy: mean of ``class_accuracy`` over the labelled classes.
    """

    iou: Tensor
    class_accuracy: Tensor
    pixels: Tensor
    miou: Tensor
    accuracy: Tensor
    mean_accuracy: Tensor

    @classmethod
    def from_confusion(cls, confusion: Tensor) -> "Scores":
        """Scores from pixel counts.

        Args:
            confusion: ``(num_classes, num_classes)`` counts; rows are labels, columns are predictions.
        """
        confusion = confusion.cpu()  # float64 is not to be had on every device
        counts = confusion.to(torch.float64)
        right, labelled, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
        iou = right / (labelled + predicted - right)
        class_accuracy = right / labelled
        return cls(
            iou=iou,
            class_accuracy=class_accuracy,
            pixels=confusion.sum(1),
            miou=iou.nanmean(),
            accuracy=right.sum() / labelled.sum(),
            mean_accuracy=class_accuracy.nanmean(),
        )

    @property
    def absent(self) -> list[int]:
        """Classes that stand in no label and no prediction."""
        return torch.nonzero(self.iou.isnan()).flatten().tolist()
