"""From a model's logits to labels, and from a checkpoint to a predictor."""

import importlib
from typing import TYPE_CHECKING, Any

from src.inference.label_map import label_map, label_map_with_confidence, probabilities, resize_logits

if TYPE_CHECKING:
    from src.inference.predictor import Predictor, load_predictor

__all__ = [
    "Predictor",
    "label_map",
    "label_map_with_confidence",
    "load_predictor",
    "probabilities",
    "resize_logits",
]


def __getattr__(name: str) -> Any:
    if name in ("Predictor", "load_predictor"):  # they read pictures, which labels do not need
        return getattr(importlib.import_module("src.inference.predictor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
