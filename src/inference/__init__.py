"""From a model's logits to labels, and from a checkpoint to a predictor."""

from src.inference.label_map import label_map, resize_logits

__all__ = ["label_map", "resize_logits"]
