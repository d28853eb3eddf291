"""From a model's logits to labels, and from a checkpoint to a predictor."""

from src.inference.label_map import label_map, resize_logits
from src.inference.predictor import Predictor, load_predictor

__all__ = ["Predictor", "label_map", "load_predictor", "resize_logits"]
