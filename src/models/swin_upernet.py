"""The model that this toolkit is about: Swin with UPerNet and an auxiliary head, as published."""

from typing import Any, Literal

from src.models.fcn_head import FCNHead
from src.models.segmenter import Segmenter
from src.models.swin import SWIN_SIZES, SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.models.upernet import UPerNetDecoder


def swin_upernet(
    size: Literal["tiny", "small", "base", "large"],
    num_classes: int,
    in_channels: int = 3,
    version: Literal[1, 2] = 1,
    **swin_settings: Any,
) -> Segmenter:
    """Swin with UPerNet of 512 channels and a fully convolutional auxiliary head of 256, weights at random.

    Args:
        size: ``tiny``, ``small``, ``base`` or ``large``.
        num_classes: number of classes.
        in_channels: channels of the images.
        version: 1 for Swin, 2 for Swin V2.
        **swin_settings: arguments of ``SwinTransformer`` or ``SwinTransformerV2``, which win over the size's.

    Raises:
        ValueError: there is no such size or version.

    Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", section 4.3; "Swin
    Transformer V2: Scaling Up Capacity and Resolution", section 4.
    """
    if size not in SWIN_SIZES:
        raise ValueError(f"size must be one of {', '.join(SWIN_SIZES)}, got {size!r}; take one of these.")
    if version not in (1, 2):
        raise ValueError(f"version must be 1 or 2, got {version!r}; take one of these.")
    settings = {**SWIN_SIZES[size]._asdict(), "in_channels": in_channels, **swin_settings}
    encoder = SwinTransformer if version == 1 else SwinTransformerV2
    return Segmenter(encoder(**settings), UPerNetDecoder, FCNHead, num_classes=num_classes)
