"""Losses on logits at a decoder's stride."""

from src.losses.cross_entropy import CrossEntropy
from src.losses.full_size import FullSizeLoss
from src.losses.ohem import OHEMCrossEntropy
from src.losses.overlap import DiceLoss, TverskyLoss
from src.losses.weighted_sum import WeightedSum

__all__ = ["CrossEntropy", "DiceLoss", "FullSizeLoss", "OHEMCrossEntropy", "TverskyLoss", "WeightedSum"]
