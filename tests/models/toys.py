"""An encoder and a decoder of someone else's, small enough to see through."""

import torch.nn.functional as F
from torch import nn

from src.models.features import FeatureSpec
from src.models.settings import RecordsSettings


class ToyEncoder(RecordsSettings, nn.Module):
    """Four strided convolutions; no level sees beyond its own patch, so padding cannot leak."""

    def __init__(self, widths: tuple[int, ...] = (4, 6, 8, 10), in_channels: int = 3) -> None:
        super().__init__()
        self.feature_specs = tuple(FeatureSpec(width, 4 * 2**level) for level, width in enumerate(widths))
        strides = [4, 2, 2, 2][: len(widths)]
        sources = [in_channels, *widths]
        self.stages = nn.ModuleList(
            nn.Conv2d(source, width, stride, stride)
            for source, width, stride in zip(sources, widths, strides, strict=False)
        )

    def forward(self, images):
        features = []
        for stage in self.stages:
            stride = stage.stride[0]
            images = F.pad(images, (0, -images.shape[-1] % stride, 0, -images.shape[-2] % stride))
            images = stage(images).tanh()
            features.append(images)
        return features


class PlainDecoder(nn.Module):
    """A decoder that knows nothing of this toolkit but the contract."""

    stride = 8

    def __init__(self, features, num_classes, kernel_size=1):
        super().__init__()
        self.conv = nn.Conv2d(features[1].channels, num_classes, kernel_size, padding=kernel_size // 2)

    def forward(self, features):
        return self.conv(features[1])
