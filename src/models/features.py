"""What an encoder says of its feature maps, and what a decoder is built from."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from src.layers.size import Size


def cells(size: Size, stride: int) -> Size:
    """Height and width of what has one cell for each ``stride`` pixels, the last one where pixels are left over.

    Args:
        size: height and width in pixels, or in cells of a finer map.
        stride: pixels, or finer cells, per cell in both axes.
    """
    return -(-size[0] // stride), -(-size[1] // stride)


class FeatureSpec(NamedTuple):
    """One level of a feature pyramid.

    A level of a ``(B, C, H, W)`` image is ``(B, channels, ceil(H / stride), ceil(W / stride))``.

    Attributes:
        channels: number of channels of the level.
        stride: pixels of the image per cell of the level, the same in both axes.
    """

    channels: int
    stride: int

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of this level, in cells.

        Args:
            height: the image's height in pixels.
            width: the image's width in pixels.
        """
        return cells((height, width), self.stride)


def check_channels(features: Sequence[Tensor], specs: Sequence[FeatureSpec], owner: str) -> None:
    """Hold feature maps against the levels that were promised.

    Args:
        features: feature maps ``(B, C_i, h_i, w_i)``.
        specs: what each of them must be.
        owner: whose maps they are, for the error.

    Raises:
        ValueError: the number of levels or a level's channels differ from the specs.
    """
    if len(features) != len(specs):
        raise ValueError(
            f"{owner} must have {len(specs)} feature levels, got {len(features)}; "
            f"build the decoder from the feature_specs of the encoder that feeds it."
        )
    for level, (feature, spec) in enumerate(zip(features, specs, strict=True)):
        if feature.ndim != 4 or feature.shape[1] != spec.channels:
            raise ValueError(
                f"{owner}: level {level} must be (B, {spec.channels}, h, w), got {tuple(feature.shape)}; "
                f"build the decoder from the feature_specs of the encoder that feeds it."
            )


def check_features(features: Sequence[Tensor], specs: Sequence[FeatureSpec], size: Size, owner: str) -> None:
    """Hold an encoder's maps against the levels that it promised.

    Args:
        features: feature maps ``(B, C_i, h_i, w_i)``.
        specs: what each of them must be.
        size: height and width of the image, in pixels.
        owner: the encoder's name, for the error.

    Raises:
        ValueError: the number of levels or a level's channels differ from the specs, or its cells from
            ``ceil(size / stride)``.
    """
    check_channels(features, specs, owner)
    for level, (feature, spec) in enumerate(zip(features, specs, strict=True)):
        if tuple(feature.shape[-2:]) != spec.size(*size):
            raise ValueError(
                f"{owner}: level {level} of stride {spec.stride} must have {spec.size(*size)} cells for an image of "
                f"{size} pixels, got {tuple(feature.shape[-2:])}; pad the image and crop the level to that."
            )
