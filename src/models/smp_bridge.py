"""segmentation-models-pytorch both ways: its encoders under our decoders, its decoders on our encoders.

Its models want sizes that their stride divides. Here maps are padded with zeros at the right and at the bottom to such
a size, and what comes out is cropped again. Importing it takes seconds, so nothing else imports this file.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import segmentation_models_pytorch as smp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.models.features import FeatureSpec, check_channels
from src.models.settings import RecordsSettings

_STRIDES = (4, 8, 16, 32)


class SmpEncoder(RecordsSettings, nn.Module):
    """An encoder of segmentation-models-pytorch as a feature pyramid of strides 4, 8, 16 and 32.

    Args:
        name: its name there, for example ``resnet50``, ``efficientnet-b0``, ``tu-convnext_tiny`` or ``mit_b0``.
        in_channels: channels of the images.
        weights: name of the pretrained weights to download, for example ``imagenet``; None for random ones. It is not
            recorded: a checkpoint has weights of its own.
        depth: number of halvings, 2 to 5; 5 gives all four levels.

    Parameters that no level depends on are frozen.

    Attributes:
        feature_specs: channels and stride of each level.
        takes_sizes: False, images of several sizes go through one size at a time.

    Raises:
        ValueError: there is no such encoder, or ``depth`` is out of range.
    """

    takes_sizes = False

    def __init__(self, name: str, in_channels: int = 3, weights: str | None = None, depth: int = 5) -> None:
        super().__init__()
        if not 2 <= depth <= 5:
            raise ValueError(f"encoder.depth must be between 2 and 5, got {depth}.")
        try:
            self.encoder = smp.encoders.get_encoder(name, in_channels=in_channels, depth=depth, weights=weights)
        except (KeyError, RuntimeError) as error:
            raise ValueError(
                f"encoder.name and weights must be known to segmentation-models-pytorch, got {name!r} and {weights!r} "
                f"({str(error)[:200]}); see segmentation_models_pytorch.encoders.get_encoder_names()."
            ) from error
        self.settings["init_args"]["weights"] = None
        self._levels = [index for index, channels in enumerate(self.encoder.out_channels) if channels and index >= 2]
        self.feature_specs = tuple(FeatureSpec(self.encoder.out_channels[index], 2**index) for index in self._levels)
        self._freeze_unused(in_channels)

    def _freeze_unused(self, in_channels: int) -> None:
        """Parameters without a part in the levels (a classifier's last layers) would stop distributed training."""
        self.encoder.eval()
        side = 2 * self.feature_specs[-1].stride
        features = self.encoder(torch.zeros(1, in_channels, side, side))
        parameters = list(self.encoder.parameters())
        total = sum(features[index].sum() for index in self._levels)
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(total, parameters, allow_unused=True), strict=True
        ):
            parameter.requires_grad_(gradient is not None)
        self.encoder.train()

    def forward(self, images: Tensor) -> list[Tensor]:
        """Encode images of one size, from 1x1.

        One small image alone in training is padded further, for the batch norms need more than one cell.

        Args:
            images: normalised images ``(B, C, H, W)``.

        Returns:
            Maps ``(B, C_i, ceil(H / stride_i), ceil(W / stride_i))``.
        """
        stride = self.feature_specs[-1].stride
        height, width = images.shape[-2:]
        padded = [-(-side // stride) * stride for side in (height, width)]
        if self.training and len(images) == 1 and padded == [stride, stride]:
            padded = [2 * stride, 2 * stride]
        features = self.encoder(_padded(images, padded))
        return [
            _cropped(features[index], spec.size(height, width))
            for index, spec in zip(self._levels, self.feature_specs, strict=True)
        ]


class SmpDecoder(RecordsSettings, nn.Module):
    """A decoder of segmentation-models-pytorch on any encoder with levels of strides 4, 8, 16 and 32.

    Args:
        features: the levels that come in, from fine to coarse.
        num_classes: number of classes K.
        architecture: ``Unet``, ``FPN`` or ``Segformer``.
        options: arguments of the architecture that begin with ``decoder_``, for example
            ``{"decoder_channels": [256, 128, 64, 32, 16]}``; None for its defaults.

    Attributes:
        stride: pixels per cell of the logits: 1 for ``Unet``, 4 for the others.

    Raises:
        ValueError: the levels have other strides, or there is no such architecture or option.
    """

    def __init__(
        self,
        features: Sequence[FeatureSpec],
        num_classes: int,
        architecture: Literal["Unet", "FPN", "Segformer"] = "Unet",
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.feature_specs = tuple(FeatureSpec(*spec) for spec in features)
        if tuple(spec.stride for spec in self.feature_specs) != _STRIDES:
            strides = [spec.stride for spec in self.feature_specs]
            raise ValueError(f"decoder.features must have the strides {_STRIDES}, got {strides}; take another encoder.")
        model_class = _architecture(architecture, options or {})
        fixed = {} if architecture == "Unet" else {"upsampling": 1}
        with _levels_as_encoder([spec.channels for spec in self.feature_specs]) as name:
            model = model_class(
                encoder_name=name, encoder_weights=None, encoder_depth=5, classes=num_classes, **fixed, **options or {}
            )
        self.decoder = model.decoder
        self.segmentation_head = model.segmentation_head
        self.stride = 1 if architecture == "Unet" else 4

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Score every cell.

        Args:
            features: four maps ``(B, C_i, h_i, w_i)``, from fine to coarse.

        Returns:
            Logits ``(B, K, 4 * h_0 / stride, 4 * w_0 / stride)``.

        Raises:
            ValueError: the maps are not those the decoder was built for.
        """
        check_channels(features, self.feature_specs, "SmpDecoder")
        height, width = features[0].shape[-2:]
        coarse = features[-1].shape[-2:]
        levels = [
            _padded(feature, [side * (_STRIDES[-1] // stride) for side in coarse])
            for feature, stride in zip(features, _STRIDES, strict=True)
        ]
        finest = levels[0]
        missing = [  # strides 1 and 2, of which only the size is looked at
            finest.new_empty(len(finest), 0, factor * finest.shape[-2], factor * finest.shape[-1]) for factor in (4, 2)
        ]
        logits = self.segmentation_head(self.decoder(missing + levels))
        return _cropped(logits, (height * _STRIDES[0] // self.stride, width * _STRIDES[0] // self.stride))


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


def _architecture(name: str, options: dict[str, Any]) -> Any:
    if name not in ("Unet", "FPN", "Segformer"):
        raise ValueError(f'decoder.architecture must be "Unet", "FPN" or "Segformer", got {name!r}.')
    model_class = getattr(smp, name)
    known = [option for option in inspect.signature(model_class.__init__).parameters if option.startswith("decoder_")]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"decoder.options of {name} must be among {', '.join(known)}, got {', '.join(unknown)}.")
    return model_class


def _padded(maps: Tensor, size: Sequence[int]) -> Tensor:
    return F.pad(maps, (0, size[1] - maps.shape[-1], 0, size[0] - maps.shape[-2]))


def _cropped(maps: Tensor, size: tuple[int, int]) -> Tensor:
    return maps[..., : size[0], : size[1]]
