"""Encoders, decoders and the segmenter that joins them."""

from typing import Any

from src.models.fcn_head import FCNHead
from src.models.features import FeatureSpec
from src.models.segmenter import Segmenter, SegmenterOutput
from src.models.swin import SwinTransformer
from src.models.swin_upernet import swin_upernet
from src.models.upernet import UPerNetDecoder

__all__ = [
    "FCNHead",
    "FeatureSpec",
    "Segmenter",
    "SegmenterOutput",
    "SmpDecoder",
    "SmpEncoder",
    "SwinTransformer",
    "UPerNetDecoder",
    "swin_upernet",
]


def __getattr__(name: str) -> Any:
    if name in ("SmpDecoder", "SmpEncoder"):  # importing segmentation-models-pytorch takes seconds
        from src.models import smp_bridge

        return getattr(smp_bridge, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
