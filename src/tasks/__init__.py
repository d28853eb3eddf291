"""LightningModules: a model with its loss, scores and optimizer."""

from src.tasks.semantic_segmentation import SemanticSegmentation

__all__ = ["SemanticSegmentation"]
