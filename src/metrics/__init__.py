"""Scores of label maps."""

from src.metrics.confusion import PixelConfusion, banded_confusion, confusion_counts, pixel_accuracy
from src.metrics.scores import Scores

__all__ = ["PixelConfusion", "Scores", "banded_confusion", "confusion_counts", "pixel_accuracy"]
