"""The encoders of segmentation-models-pytorch under our decoders.

Its encoders want sizes that their stride divides. Here images are padded with zeros at the right and at the bottom to
such a size, and the maps are cropped again. Importing it takes seconds, so nothing else imports this file.

Shapes: B images of H x W pixels, level i of C_i channels and stride_i pixels per cell.
"""

import segmentation_models_pytorch as smp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.windows import padded_size
from src.models.features import FeatureSpec
from src.models.settings import RecordsSettings


class SmpEncoder(RecordsSettings, nn.Module):
    """An encoder of segmentation-models-pytorch as a feature pyramid of strides 4, 8, 16 and 32.

    Parameters that no level depends on are frozen: they would stop distributed training.

    Args:
        name: its name there, for example ``resnet50``, ``efficientnet-b0``, ``tu-convnext_tiny`` or ``mit_b0``.
        in_channels: channels of the images.
        weights: name of the pretrained weights to download, for example ``imagenet``; None for random ones. It is not
            recorded: a checkpoint has weights of its own.
        depth: number of halvings, 2 to 5; 5 gives all four levels.

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
            raise ValueError(
                f"model.model.encoder.depth must be between 2 and 5, got {depth}; 5 gives all four levels."
            )
        try:
            with torch.inference_mode(False):  # or its parameters could never be trained
                self.encoder = smp.encoders.get_encoder(name, in_channels=in_channels, depth=depth, weights=weights)
        except (KeyError, RuntimeError) as error:
            raise ValueError(
                f"model.model.encoder.name and weights must be known to segmentation-models-pytorch, got {name!r} "
                f"and {weights!r} ({str(error)[:200]}); see segmentation_models_pytorch.encoders.get_encoder_names()."
            ) from error
        self.settings["init_args"]["weights"] = None
        self._levels = [index for index, channels in enumerate(self.encoder.out_channels) if channels and index >= 2]
        self.feature_specs = tuple(FeatureSpec(self.encoder.out_channels[index], 2**index) for index in self._levels)
        self._freeze_unused(in_channels)

    @torch.inference_mode(False)
    @torch.enable_grad()
    def _freeze_unused(self, in_channels: int) -> None:
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
        padded = padded_size((height, width), (stride, stride))
        if self.training and len(images) == 1 and padded == (stride, stride):
            padded = (2 * stride, 2 * stride)
        features = self.encoder(F.pad(images, (0, padded[1] - width, 0, padded[0] - height)))
        sizes = [spec.size(height, width) for spec in self.feature_specs]
        return [features[index][..., :h, :w] for index, (h, w) in zip(self._levels, sizes, strict=True)]
