"""Encoders, decoders and the segmenter that joins them."""

import importlib
from typing import Any

from src.models.execution import Execution
from src.models.fcn_head import FCNHead
from src.models.features import FeatureSpec
from src.models.segmenter import Segmenter, SegmenterOutput
from src.models.swin import SwinTransformer
from src.models.swin_upernet import swin_upernet
from src.models.swin_v2 import SwinTransformerV2
from src.models.upernet import UPerNetDecoder

__all__ = [
    "Execution",
    "FCNHead",
    "FeatureSpec",
    "Segmenter",
    "SegmenterOutput",
    "SmpEncoder",
    "SmpFPN",
    "SmpSegformer",
    "SmpUnet",
    "SwinTransformer",
    "SwinTransformerV2",
    "UPerNetDecoder",
    "swin_upernet",
]


_SMP_FILES = {
    "SmpEncoder": "src.models.smp_encoder",
    "SmpFPN": "src.models.smp_decoders",
    "SmpSegformer": "src.models.smp_decoders",
    "SmpUnet": "src.models.smp_decoders",
}


def __getattr__(name: str) -> Any:
    if name in _SMP_FILES:  # importing segmentation-models-pytorch takes seconds
        return getattr(importlib.import_module(_SMP_FILES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
