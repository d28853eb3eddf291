"""UPerNet: a pyramid pooling of the coarsest level, a feature pyramid over all of them.

Shapes: B images, L levels of C_i channels and size h_i x w_i from fine to coarse, D decoder channels, K classes.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.models.conv_module import ConvModule, Norm, classifier
from src.models.features import FeatureSpec, check_channels
from src.models.settings import RecordsSettings


class UPerNetDecoder(RecordsSettings, nn.Module):
    """Decoder over any feature pyramid, levels of any size from 1x1.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        channels: channels D inside the decoder.
        pool_sizes: grids, in cells, to which the coarsest level is pooled.
        dropout: fraction of channels dropped before the classifier in training.
        norm: ``batch`` or ``group``, the norm after each convolution.

    Attributes:
        stride: pixels per cell of the logits, the finest level's.

    Raises:
        ValueError: there is no level, the levels do not run from fine to coarse, or a number is out of its range.

    Source: Xiao et al., "Unified Perceptual Parsing for Scene Understanding", section 3.2 and figure 4, with the
    module names and the initialisation of the published Swin configurations.
    """

    def __init__(
        self,
        features: Sequence[FeatureSpec],
        num_classes: int,
        channels: int = 512,
        pool_sizes: Sequence[int] = (1, 2, 3, 6),
        dropout: float = 0.1,
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        self.feature_specs = _fine_to_coarse(features)
        if channels < 1 or any(size < 1 for size in pool_sizes):
            raise ValueError(
                f"model.model.decoder.channels and pool_sizes must be positive, got {channels} and {pool_sizes}; 512 "
                f"and [1, 2, 3, 6] are the published ones."
            )
        self.stride = self.feature_specs[0].stride
        *fine, coarse = self.feature_specs
        self.psp_modules = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(size), ConvModule(coarse.channels, channels, 1, norm))
            for size in pool_sizes
        )
        self.bottleneck = ConvModule(coarse.channels + len(pool_sizes) * channels, channels, 3, norm)
        self.lateral_convs = nn.ModuleList(ConvModule(spec.channels, channels, 1, norm) for spec in fine)
        self.fpn_convs = nn.ModuleList(ConvModule(channels, channels, 3, norm) for _ in fine)
        self.fpn_bottleneck = ConvModule(len(self.feature_specs) * channels, channels, 3, norm)
        self.dropout = nn.Dropout2d(dropout)
        self.conv_seg = classifier(channels, num_classes)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Score every cell of the finest level.

        Args:
            features: L maps ``(B, C_i, h_i, w_i)``, from fine to coarse.

        Returns:
            Logits ``(B, K, h_0, w_0)``.

        Raises:
            ValueError: the maps are not those the decoder was built for.
        """
        check_channels(features, self.feature_specs, "UPerNetDecoder")
        pyramid = self._top_down(features)
        size = pyramid[0].shape[-2:]
        outputs = [conv(level) for conv, level in zip(self.fpn_convs, pyramid[:-1], strict=True)] + pyramid[-1:]
        outputs[1:] = [_resized(output, size) for output in outputs[1:]]
        merged = self.fpn_bottleneck(torch.cat(outputs, dim=1))  # (B, L * D, h_0, w_0) -> (B, D, h_0, w_0)
        return self.conv_seg(self.dropout(merged))

    def _top_down(self, features: Sequence[Tensor]) -> list[Tensor]:
        pyramid = [self._pooled(features[-1])]
        for conv, feature in zip(reversed(self.lateral_convs), reversed(features[:-1]), strict=True):
            pyramid.insert(0, conv(feature) + _resized(pyramid[0], feature.shape[-2:]))
        return pyramid

    def _pooled(self, feature: Tensor) -> Tensor:
        size = feature.shape[-2:]
        pooled = [_resized(module(feature), size) for module in self.psp_modules]
        return self.bottleneck(torch.cat([feature, *pooled], dim=1))


def _resized(feature: Tensor, size: Sequence[int]) -> Tensor:
    return F.interpolate(feature, size=tuple(size), mode="bilinear", align_corners=False)


def _fine_to_coarse(features: Sequence[FeatureSpec]) -> tuple[FeatureSpec, ...]:
    specs = tuple(FeatureSpec(*spec) for spec in features)
    strides = [spec.stride for spec in specs]
    if not specs or strides != sorted(strides):
        raise ValueError(
            f"features must be levels from fine to coarse, got strides {strides}; order the encoder's feature_specs."
        )
    return specs
