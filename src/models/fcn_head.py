"""A fully convolutional head on one level, the auxiliary classifier of the published recipe.

Shapes: B images, levels of C_i channels and size h_i x w_i from fine to coarse, K classes.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import cast

from torch import Tensor, nn

from src.layers.recompute import Recomputed, not_kept
from src.layers.untouched import hooked
from src.models.conv_module import ConvModule, Norm, classified, classifier
from src.models.features import FeatureSpec, check_channels
from src.models.settings import RecordsSettings


class FCNHead(RecordsSettings, nn.Module):
    """3x3 convolutions and a classifier on one level of a feature pyramid.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        level: index of the level that is classified, 0 for the finest.
        channels: channels of the convolutions.
        num_convs: number of convolutions before the classifier.
        dropout: fraction of channels dropped before the classifier in training.
        norm: ``batch`` or ``group``, the norm after each convolution.

    Attributes:
        stride: pixels per cell of the logits, the level's.

    Raises:
        ValueError: there is no such level.

    Source: Long et al., "Fully Convolutional Networks for Semantic Segmentation", as the auxiliary head of the
    published Swin configurations, with their module names and initialisation.
    """

    def __init__(
        self,
        features: Sequence[FeatureSpec],
        num_classes: int,
        level: int = 2,
        channels: int = 256,
        num_convs: int = 1,
        dropout: float = 0.1,
        norm: Norm = "batch",
    ) -> None:
        super().__init__()
        if not 0 <= level < len(features):
            raise ValueError(
                f"model.model.auxiliary.level must be between 0 and {len(features) - 1}, got {level}; 0 is the finest "
                f"level of the encoder."
            )
        self.feature_specs = tuple(FeatureSpec(*spec) for spec in features)
        self.level = level
        self.stride = self.feature_specs[level].stride
        widths = [self.feature_specs[level].channels] + [channels] * num_convs
        self.convs = nn.Sequential(
            *(ConvModule(before, after, 3, norm) for before, after in itertools.pairwise(widths))
        )
        self.dropout = nn.Dropout2d(dropout)
        self.conv_seg = classifier(widths[-1], num_classes)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Score every cell of the level.

        Args:
            features: maps ``(B, C_i, h_i, w_i)``, from fine to coarse.

        Returns:
            Logits ``(B, K, h_level, w_level)``.

        Raises:
            ValueError: the maps are not those the head was built for.
        """
        check_channels(features, self.feature_specs, "FCNHead")
        maps = features[self.level]
        again: Recomputed | None = None
        for conv in cast(Iterable[ConvModule], self.convs):
            if hooked(conv):
                maps, again = conv(maps), None
                continue
            with not_kept((maps, again)):
                maps, again = conv.joined([maps], maps.shape[2:])
        return classified(maps, again, self.dropout, self.conv_seg)
