"""UPerNet's finest level without its maps: strips of rows pass from the encoder's feature to the logits.

Shapes: h x w cells of the finest level, C channels of its feature, D decoder channels, K classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.bilinear import resized_rows
from src.layers.conv3x3 import Kernel
from src.layers.size import Size
from src.layers.strips import UpsampledStrips, convolved, strip_rows
from src.layers.upsampled_taps import tap_rows
from src.models.conv_module import ConvModule


@dataclass(frozen=True)
class FinestLevel:
    """The finest level's convolutions, norms folded in, prepared for strips of maps that are large enough or not.

    Args:
        lateral: weight ``(D, C)`` and bias.
        conv: the level's convolution and its bias.
        own: the last convolution's part for this level.
        coarser: its parts for the other levels, each ``(3, D, 3 * D)``.
        bias: the last convolution's.
        classify: weight ``(K, D)`` and bias.
    """

    lateral: tuple[Tensor, Tensor]
    conv: tuple[Kernel, Tensor]
    own: Kernel
    coarser: tuple[Tensor, ...]
    bias: Tensor
    classify: tuple[Tensor, Tensor]

    @classmethod
    def prepared(
        cls,
        lateral: ConvModule,
        conv: ConvModule,
        bottleneck: ConvModule,
        classify: nn.Conv2d,
        size: Size,
        dtype: torch.dtype,
    ) -> "FinestLevel":
        """From the decoder's modules, whose norms fold.

        Args:
            lateral: makes D channels of the feature.
            conv: the level's 3x3 convolution.
            bottleneck: the 3x3 convolution over all levels.
            classify: the classifier.
            size: height and width, in cells; it matters whether they are ``large_enough``.
            dtype: type of the maps.
        """
        lateral_weight, lateral_bias = lateral.folded(dtype)
        conv_weight, conv_bias = conv.folded(dtype)
        weight, bias = bottleneck.folded(dtype)
        own, *coarser = weight.split(len(weight), 1)
        return cls(
            lateral=(lateral_weight.flatten(1), lateral_bias),
            conv=(Kernel.prepared(conv_weight, size, conv.numerics), conv_bias),
            own=Kernel.prepared(own, size, bottleneck.numerics),
            coarser=tuple(tap_rows(part) for part in coarser),
            bias=bias,
            classify=(classify.weight.flatten(1).to(dtype), cast(Tensor, classify.bias).to(dtype)),
        )

    @property
    def dtype(self) -> torch.dtype:
        """Type of the maps."""
        return self.bias.dtype

    def score(self, feature: Tensor, merged: Tensor, coarser: Sequence[Tensor], into: Tensor) -> None:
        """Writes the scores of one image.

        Args:
            feature: the encoder's finest map, ``(h, w, C)``.
            merged: the sum of all coarser levels, ``(h_1, w_1, D)``.
            coarser: the coarser levels after their convolutions, ``(h_i, w_i, D)``.
            into: ``(h, w, K)``.
        """
        size = (feature.shape[0], feature.shape[1])
        upsampled = [UpsampledStrips(level, kernel, size) for level, kernel in zip(coarser, self.coarser, strict=True)]
        weight, bias = self.classify
        top = 0
        for strip in convolved(self._level(feature, merged), self.own):
            for level in upsampled:
                level.add_to(strip, top)
            strip = F.relu(strip.add_(self.bias), inplace=True)
            torch.addmm(bias, strip.flatten(0, 1), weight.t(), out=into[top : top + len(strip)].flatten(0, 1))
            top += len(strip)

    def _level(self, feature: Tensor, merged: Tensor) -> Iterator[Tensor]:
        """The level after its convolution."""
        kernel, bias = self.conv
        for strip in convolved(self._laterals(feature, merged), kernel):
            yield F.relu(strip.add_(bias), inplace=True)

    def _laterals(self, feature: Tensor, merged: Tensor) -> Iterator[Tensor]:
        """The level before its convolution."""
        weight, bias = self.lateral
        size = (feature.shape[0], feature.shape[1])
        count = strip_rows(size, len(weight), feature)
        for start in range(0, size[0], count):
            rows = feature[start : start + count]
            strip = F.relu(F.linear(rows, weight, bias), inplace=True)
            yield strip.add_(resized_rows(merged, size, start, start + len(rows)))
