"""From a model's logits to labels, and from a checkpoint to a predictor."""

import importlib
from typing import TYPE_CHECKING, Any

from src.inference.label_map import label_map, label_map_with_confidence, probabilities, resize_logits

if TYPE_CHECKING:
    from src.inference.predictor import Predictor, load_predictor
    from src.inference.sliding_window import SlidingWindow

__all__ = [
    "Predictor",
    "SlidingWindow",
    "label_map",
    "label_map_with_confidence",
    "load_predictor",
    "probabilities",
    "resize_logits",
]


_LATE = {  # they read pictures or build models, which labels do not need
    "Predictor": "predictor",
    "SlidingWindow": "sliding_window",
    "load_predictor": "predictor",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(f"src.inference.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
