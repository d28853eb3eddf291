"""Decoders of segmentation-models-pytorch on our encoders.

They want maps of sizes that follow from a size their stride divides. Here maps are padded with zeros at the right and
at the bottom to these, and the logits are cropped again. Importing it takes seconds, so nothing else imports this file.

Shapes: B images, levels of C_i channels and size h_i x w_i from fine to coarse, K classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import segmentation_models_pytorch as smp
import torch.nn.functional as F
from torch import Tensor, nn

from src.models.features import FeatureSpec, check_channels
from src.models.settings import RecordsSettings

SmpNorm = Literal["batchnorm", "identity"]
Interpolation = Literal["nearest", "nearest-exact", "bilinear", "bicubic", "area"]

_STRIDES = (4, 8, 16, 32)
_CHOICES = {
    "decoder_use_norm": get_args(SmpNorm),
    "decoder_attention_type": (None, "scse"),
    "decoder_interpolation": get_args(Interpolation),
    "decoder_merge_policy": ("add", "cat"),
}


class _SmpDecoder(RecordsSettings, nn.Module):
    """What the decoders of segmentation-models-pytorch share.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        architecture: the library's model whose decoder it is.
        stride: pixels per cell of the logits.
        **options: arguments of the architecture.
    """

    def __init__(
        self, features: Sequence[FeatureSpec], num_classes: int, architecture: type, stride: int, **options: Any
    ) -> None:
        super().__init__()
        self.feature_specs = tuple(FeatureSpec(*spec) for spec in features)
        self.stride = stride
        _check_decoder(self.feature_specs, options)
        with _levels_as_encoder([spec.channels for spec in self.feature_specs]) as name:
            model = architecture(
                encoder_name=name, encoder_weights=None, encoder_depth=5, classes=num_classes, **options
            )
        self.decoder = model.decoder
        self.segmentation_head = model.segmentation_head

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Score every cell.

        Args:
            features: four maps ``(B, C_i, h_i, w_i)``, from fine to coarse.

        Returns:
            Logits ``(B, K, 4 * h_0 / stride, 4 * w_0 / stride)``.

        Raises:
            ValueError: the maps are not those the decoder was built for.
        """
        check_channels(features, self.feature_specs, type(self).__name__)
        height, width = features[0].shape[-2:]
        coarse = features[-1].shape[-2:]
        levels = [
            _padded(feature, coarse[0] * (_STRIDES[-1] // stride), coarse[1] * (_STRIDES[-1] // stride))
            for feature, stride in zip(features, _STRIDES, strict=True)
        ]
        finest = levels[0]
        missing = [  # strides 1 and 2, of which only the size is looked at
            finest.new_empty(len(finest), 0, factor * finest.shape[-2], factor * finest.shape[-1]) for factor in (4, 2)
        ]
        logits = self.segmentation_head(self.decoder(missing + levels))
        factor = _STRIDES[0] // self.stride
        return logits[..., : height * factor, : width * factor]


class SmpUnet(_SmpDecoder):
    """The decoder of segmentation-models-pytorch's ``Unet`` on any encoder with levels of strides 4, 8, 16 and 32.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        decoder_channels: channels of its five blocks, from coarse to fine.
        decoder_use_norm: the norm after each convolution.
        decoder_attention_type: attention within the blocks; None for none.
        decoder_interpolation: how maps are doubled.

    Attributes:
        stride: pixels per cell of the logits, 1.

    Raises:
        ValueError: the levels have other strides, or an option is out of its range.
    """

    def __init__(
        self,
        features: Sequence[FeatureSpec],
        num_classes: int,
        decoder_channels: Sequence[int] = (256, 128, 64, 32, 16),
        decoder_use_norm: SmpNorm = "batchnorm",
        decoder_attention_type: Literal["scse"] | None = None,
        decoder_interpolation: Interpolation = "nearest",
    ) -> None:
        super().__init__(
            features,
            num_classes,
            smp.Unet,
            stride=1,
            decoder_channels=decoder_channels,
            decoder_use_norm=decoder_use_norm,
            decoder_attention_type=decoder_attention_type,
            decoder_interpolation=decoder_interpolation,
        )


class SmpFPN(_SmpDecoder):
    """The decoder of segmentation-models-pytorch's ``FPN`` on any encoder with levels of strides 4, 8, 16 and 32.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        decoder_pyramid_channels: channels of the pyramid.
        decoder_segmentation_channels: channels of what each of its levels gives; groups of 32 are normalised.
        decoder_merge_policy: whether these are added or concatenated.
        decoder_dropout: fraction of channels dropped before the classifier in training.
        decoder_interpolation: how maps of the pyramid are doubled.

    Attributes:
        stride: pixels per cell of the logits, 4.

    Raises:
        ValueError: the levels have other strides, or an option is out of its range.
    """

    def __init__(
        self,
        features: Sequence[FeatureSpec],
        num_classes: int,
        decoder_pyramid_channels: int = 256,
        decoder_segmentation_channels: int = 128,
        decoder_merge_policy: Literal["add", "cat"] = "add",
        decoder_dropout: float = 0.2,
        decoder_interpolation: Interpolation = "nearest",
    ) -> None:
        super().__init__(
            features,
            num_classes,
            smp.FPN,
            stride=4,
            upsampling=1,
            decoder_pyramid_channels=decoder_pyramid_channels,
            decoder_segmentation_channels=decoder_segmentation_channels,
            decoder_merge_policy=decoder_merge_policy,
            decoder_dropout=decoder_dropout,
            decoder_interpolation=decoder_interpolation,
        )


class SmpSegformer(_SmpDecoder):
    """The decoder of segmentation-models-pytorch's ``Segformer`` on any encoder with levels of strides 4, 8, 16 and 32.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        decoder_segmentation_channels: channels inside the decoder.

    Attributes:
        stride: pixels per cell of the logits, 4.

    Raises:
        ValueError: the levels have other strides, or an option is out of its range.
    """

    def __init__(
        self, features: Sequence[FeatureSpec], num_classes: int, decoder_segmentation_channels: int = 256
    ) -> None:
        super().__init__(
            features,
            num_classes,
            smp.Segformer,
            stride=4,
            upsampling=1,
            decoder_segmentation_channels=decoder_segmentation_channels,
        )


class _Levels(nn.Module):
    """Stands where segmentation-models-pytorch builds its encoder, whose channels alone it asks for."""

    output_stride = 32

    def __init__(self, channels: list[int], depth: int, output_stride: int) -> None:
        super().__init__()
        self.out_channels = [3, 0, *channels]

    def set_in_channels(self, in_channels: int, pretrained: bool) -> None:
        """Nothing to set, for no image comes here."""


@contextmanager
def _levels_as_encoder(channels: list[int]) -> Iterator[str]:
    name = "levels-of-another-encoder"
    known = smp.encoders.encoders
    known[name] = {"encoder": _Levels, "pretrained_settings": {}, "params": {"channels": channels}}
    try:
        yield name
    finally:
        del known[name]


def _check_decoder(specs: Sequence[FeatureSpec], options: Mapping[str, Any]) -> None:
    strides = tuple(spec.stride for spec in specs)
    if strides != _STRIDES:
        raise ValueError(
            f"features must have the strides {_STRIDES}, got {strides}; take another encoder, such as "
            f"src.models.SwinTransformer with its patch_size of 4."
        )
    for name, choices in _CHOICES.items():
        if name in options and options[name] not in choices:
            raise ValueError(
                f"model.model.decoder.{name} must be one of {choices}, got {options[name]!r}; take one of these."
            )
    channels = options.get("decoder_channels", (1,) * 5)
    if len(channels) != 5 or min(channels) < 1:
        raise ValueError(
            f"model.model.decoder.decoder_channels must be five numbers from 1 up, got {channels}; "
            f"(256, 128, 64, 32, 16) are the library's."
        )


def _padded(maps: Tensor, height: int, width: int) -> Tensor:
    return F.pad(maps, (0, width - maps.shape[-1], 0, height - maps.shape[-2]))
