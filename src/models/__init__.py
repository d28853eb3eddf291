"""Encoders, decoders and the segmenter that joins them."""

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
    "SwinTransformer",
    "UPerNetDecoder",
    "swin_upernet",
]
