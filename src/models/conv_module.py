"""Convolution, normalisation and ReLU, the brick of the decoders.

Shapes: B images, a map of C channels and h x w cells, K classes.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Norm = Literal["batch", "group"]
"""Normalisation of a decoder. For statistics over several devices give the trainer ``sync_batchnorm: true``."""

_MAX_GROUPS = 32


class SingleValueBatchNorm2d(nn.BatchNorm2d):
    """``nn.BatchNorm2d`` that also trains where a channel has one value only, e.g. one image pooled to 1x1.

    The variance of one value is nothing to divide by, so torch refuses it. Here such a map is normalised with the
    running statistics, which it leaves as they are. Every other map, and the state dict, is as in ``nn.BatchNorm2d``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel.

        Args:
            input: maps ``(B, C, h, w)``.
        """
        if self.training and self.track_running_stats and input.numel() == input.shape[1]:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


class ConvModule(nn.Module):
    """A convolution without bias that keeps the map's size, a norm, and ReLU.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel in cells, odd.
        norm: ``batch`` or ``group`` (groups of two channels or more, 32 at most).

    Raises:
        ValueError: ``norm`` is neither.

    Source: mmcv's ``ConvModule`` and its initialisation (Kaiming normal over the fan-out).
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, norm: Norm = "batch") -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False)
        self.bn = _norm(norm, out_channels)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, features: Tensor) -> Tensor:
        """Convolve, normalise, rectify.

        Args:
            features: a map ``(B, in_channels, h, w)``.

        Returns:
            A map ``(B, out_channels, h, w)``.
        """
        return F.relu(self.bn(self.conv(features)), inplace=True)


def _norm(norm: Norm, channels: int) -> nn.Module:
    if norm == "batch":
        return SingleValueBatchNorm2d(channels)
    if norm == "group":
        groups = range(min(_MAX_GROUPS, channels // 2), 0, -1)
        return nn.GroupNorm(next((count for count in groups if channels % count == 0), 1), channels)
    raise ValueError(
        f'model.model.decoder.norm must be "batch" or "group", got {norm!r}; '
        f"for synchronised batch norm set trainer.sync_batchnorm to true."
    )


def classifier(channels: int, num_classes: int) -> nn.Conv2d:
    """The 1x1 convolution that scores classes, its weights N(0, 0.01), its bias 0.

    Args:
        channels: channels of the map that is classified.
        num_classes: number of classes.

    Raises:
        ValueError: ``num_classes`` is below 1.
    """
    if num_classes < 1:
        raise ValueError(
            f"model.model.num_classes must be at least 1, got {num_classes}; give the number of classes of the data."
        )
    conv = nn.Conv2d(channels, num_classes, kernel_size=1)
    nn.init.normal_(conv.weight, std=0.01)
    nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
    return conv
