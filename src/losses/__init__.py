"""Losses on logits at a decoder's stride."""

from src.losses.cross_entropy import CrossEntropy
from src.losses.full_size import FullSizeLoss

__all__ = ["CrossEntropy", "FullSizeLoss"]
