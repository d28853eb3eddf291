"""The layouts that weights are published in, one family a file."""

from src.weights.layouts.layout import Layout
from src.weights.layouts.microsoft import MICROSOFT
from src.weights.layouts.mmseg import MMSEG
from src.weights.layouts.official import OFFICIAL
from src.weights.layouts.smp import SMP
from src.weights.layouts.timm import TIMM, TIMM_FEATURES
from src.weights.layouts.toolkit import TOOLKIT, TOOLKIT_ENCODER, TOOLKIT_FOREIGN, TOOLKIT_HEADS
from src.weights.layouts.torchvision import TORCHVISION, TORCHVISION_V2
from src.weights.layouts.transformers import (
    TRANSFORMERS,
    TRANSFORMERS_BACKBONE,
    TRANSFORMERS_IN_MEMORY,
    TRANSFORMERS_V2,
)

LAYOUTS: tuple[Layout, ...] = (
    TOOLKIT,
    TOOLKIT_ENCODER,
    TOOLKIT_HEADS,
    SMP,
    OFFICIAL,
    MICROSOFT,
    TIMM_FEATURES,
    TIMM,
    MMSEG,
    TORCHVISION,
    TORCHVISION_V2,
    TRANSFORMERS_BACKBONE,
    TRANSFORMERS,
    TRANSFORMERS_V2,
    TRANSFORMERS_IN_MEMORY,
    TOOLKIT_FOREIGN,
)
"""All layouts; where two know the same weights of a file, the first one counts."""
