"""The ``preprocessor_config.json`` that transformers keeps beside weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from src.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from src.weights.layouts.layout import Kind

PROCESSOR = "preprocessor_config.json"
_SCALE = 255


def processor_config(preprocessing: Preprocessing, kind: Kind, image_size: int) -> dict[str, Any]:
    """What transformers is to do with images.

    Args:
        preprocessing: how images become inputs. Its resize keeps the ratio of the sides, which transformers' does not.
        kind: what the weights are of; classifiers take images of one size.
        image_size: height and width, in pixels, to which images are brought, where they are resized.
    """
    return {
        "image_processor_type": "SegformerImageProcessor" if kind == "segmentor" else "ViTImageProcessor",
        "do_resize": kind != "segmentor" or preprocessing.resize is not None,
        "size": {"height": image_size, "width": image_size},
        "do_rescale": True,
        "rescale_factor": 1 / _SCALE,
        "do_normalize": True,
        "image_mean": [value / _SCALE for value in preprocessing.mean],
        "image_std": [value / _SCALE for value in preprocessing.std],
    }


def told_preprocessing(weights: Path) -> tuple[Preprocessing, str] | None:
    """What the file beside weights says, and a note on it; None where there is none that can be understood.

    Args:
        weights: the file of the weights.
    """
    try:
        config = json.loads((weights.parent / PROCESSOR).read_text("utf-8"))
        factor = config.get("rescale_factor", 1 / _SCALE) if config.get("do_rescale", True) else 1.0
        mean: tuple[float, ...] = IMAGENET_MEAN
        std: tuple[float, ...] = IMAGENET_STD
        if config.get("do_normalize", True):
            mean, std = (tuple(value / factor for value in config[key]) for key in ("image_mean", "image_std"))
        else:
            mean, std = (0.0,) * len(mean), (1 / factor,) * len(std)
        side = _side(config.get("size")) if config.get("do_resize", True) else None
        resize = None if side is None else (4 * side, side)
        told = Preprocessing(resize=resize, mean=tuple(round(value, 4) for value in mean), std=tuple(std))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return None
    note = f"preprocessing is that of {PROCESSOR}"
    squeezed = "; it brings images to a square, here the ratio of their sides is kept"
    return told, note if told.resize is None else note + squeezed


def _side(size: Any) -> int:
    """The shorter side, in pixels, of what transformers resizes to."""
    if isinstance(size, Mapping):
        size = size["shortest_edge"] if "shortest_edge" in size else min(size["height"], size["width"])
    return int(size)
