"""Convolution, normalisation and ReLU, the brick of the decoders.

Shapes: B images, a map of C channels and h x w cells, K classes.
"""

from collections.abc import Sequence
from typing import Literal, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.conv3x3 import Numerics, large_enough
from src.layers.derived import Derived
from src.layers.precision import working_dtype
from src.layers.recompute import Recomputed, not_kept
from src.layers.size import Size
from src.layers.untouched import untouched
from src.layers.upsampled_conv import JoinedKernel, upsampled_conv

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

    In training the result is not kept for the backward pass where its consumer can do without, see ``joined``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel in cells, 1 or 3.
        norm: ``batch`` or ``group`` (groups of two channels or more, 32 at most).

    Attributes:
        numerics: how 3x3 convolutions are computed, see ``src.layers.conv3x3``.

    Raises:
        ValueError: ``norm`` is neither.

    Source: mmcv's ``ConvModule`` and its initialisation (Kaiming normal over the fan-out).
    """

    numerics: Numerics = "exact"

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, norm: Norm = "batch") -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False)
        self.bn = _norm(norm, out_channels)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        self._folded: Derived[tuple[Tensor, Tensor]] = Derived()
        self._kernel: Derived[JoinedKernel] = Derived()

    def forward(self, features: Tensor) -> Tensor:
        """Convolve, normalise, rectify.

        Args:
            features: a map ``(B, in_channels, h, w)``.

        Returns:
            A map ``(B, out_channels, h, w)``.
        """
        return self.joined([features], features.shape[2:])[0]

    def joined(self, maps: Sequence[Tensor], size: Sequence[int]) -> tuple[Tensor, Recomputed | None]:
        """Convolve maps that are resized bilinearly to one size and joined; normalise, rectify.

        Args:
            maps: ``(B, C_i, h_i, w_i)``, ``in_channels`` together; a single one of that size where the kernel is 1x1.
            size: height and width of the result, in cells.

        Returns:
            A map ``(B, out_channels, h, w)``, and how it is made again where the graph should not keep it.
        """
        if not torch.compiler.is_compiling():
            if torch.is_grad_enabled():
                self._forget()  # an optimizer may be about to change the weights unseen
            elif self.folds:
                return self._inferred(maps, (size[0], size[1])), None
        if not self._conv_is_plain:
            return F.relu(self.bn(self.conv(_joined(maps, size)))), None
        if self.conv.kernel_size == (3, 3):
            return self._activated(upsampled_conv(maps, self.conv.weight, (size[0], size[1]), self.numerics))
        return self._activated(self.conv(maps[0]))

    def _inferred(self, maps: Sequence[Tensor], size: Size) -> Tensor:
        dtype = working_dtype(maps[0])
        maps = [level.to(dtype) for level in maps]
        weight, bias = self.folded(dtype)
        if self.conv.kernel_size == (1, 1):
            cells = F.linear(maps[0].permute(0, 2, 3, 1), weight.flatten(1), bias)
            return F.relu(cells, inplace=True).permute(0, 3, 1, 2)
        forms = tuple((level.shape[1], level.shape[2:] == size) for level in maps)
        kernel = self._kernel.get(
            self._sources(),
            (forms, large_enough(size), dtype, self.numerics, cast(nn.BatchNorm2d, self.bn).eps),
            lambda: JoinedKernel.prepared(weight, maps, size, self.numerics),
        )
        return F.relu(kernel.result(maps, size).add_(bias), inplace=True).permute(0, 3, 1, 2)

    def _activated(self, convolved: Tensor) -> tuple[Tensor, Recomputed | None]:
        if not (self.training and torch.is_grad_enabled() and self._repeatable(convolved)):
            return F.relu(self.bn(convolved)), None
        kept = convolved.detach()
        from_batch = self.bn.training or getattr(self.bn, "running_mean", None) is None
        again = Recomputed(lambda: F.relu(self._normalised(kept, from_batch), inplace=True), kept.device.type)
        normed = self.bn(convolved)
        with not_kept((None, again)):
            return F.relu(normed), again

    def _repeatable(self, convolved: Tensor) -> bool:
        """Whether the norm can be taken a second time without a trace, and gives the same."""
        if torch.compiler.is_compiling() or not untouched(self.bn, nn.GroupNorm, SingleValueBatchNorm2d):
            return False
        return isinstance(self.bn, nn.GroupNorm) or convolved.numel() > convolved.shape[1]

    def _normalised(self, convolved: Tensor, from_batch: bool) -> Tensor:
        if isinstance(self.bn, nn.GroupNorm):
            return self.bn(convolved)
        bn = cast(nn.BatchNorm2d, self.bn)
        mean, var = (None, None) if from_batch else (bn.running_mean, bn.running_var)
        return F.batch_norm(convolved, mean, var, bn.weight, bn.bias, training=from_batch, eps=bn.eps)

    @property
    def folds(self) -> bool:
        """Whether the norm is a fixed factor and shift of each channel, and nothing else happens in this module."""
        if self.training or self.bn.training or not self._conv_is_plain:
            return False
        bn = cast(nn.BatchNorm2d, self.bn)
        return untouched(bn, nn.BatchNorm2d, SingleValueBatchNorm2d) and bn.affine and bn.track_running_stats

    @property
    def _conv_is_plain(self) -> bool:
        return untouched(self.conv, nn.Conv2d) and self.conv.bias is None

    def folded(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Weight and bias of the convolution that does the norm as well, where it ``folds``.

        Args:
            dtype: type of both.
        """
        eps = cast(nn.BatchNorm2d, self.bn).eps
        sources = self._sources()

        def make() -> tuple[Tensor, Tensor]:
            weight, factor, shift, mean, var = (source.double() for source in sources)
            factor = factor * (var + eps).rsqrt()
            return (weight * factor.view(-1, 1, 1, 1)).to(dtype), (shift - mean * factor).to(dtype)

        return self._folded.get(sources, (dtype, eps), make)

    def _sources(self) -> list[Tensor]:
        """What the folded convolution is made from."""
        bn = cast(nn.BatchNorm2d, self.bn)
        return [self.conv.weight, *cast(list[Tensor], [bn.weight, bn.bias, bn.running_mean, bn.running_var])]

    def train(self, mode: bool = True) -> Self:
        """Sets the mode, see ``torch.nn.Module``.

        Args:
            mode: True to train.
        """
        self._forget()
        return super().train(mode)

    def _forget(self) -> None:
        self._folded.clear()
        self._kernel.clear()


def _joined(maps: Sequence[Tensor], size: Sequence[int]) -> Tensor:
    """The maps themselves, resized and joined, for a convolution that must be called."""
    return torch.cat([resized(level, size) for level in maps], 1)


def resized(level: Tensor, size: Sequence[int]) -> Tensor:
    """A map ``(B, C, h, w)``, resized bilinearly.

    Args:
        level: the map.
        size: height and width of the result, in cells.
    """
    return F.interpolate(level, size=tuple(size), mode="bilinear", align_corners=False)


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


def classified(features: Tensor, again: Recomputed | None, dropout: nn.Dropout2d, classify: nn.Conv2d) -> Tensor:
    """The logits ``(B, K, h, w)`` of a map, after dropout.

    Args:
        features: the map ``(B, D, h, w)``; with ``again`` it is changed.
        again: how the map is made again for the backward pass; None: it is kept.
        dropout: of channels.
        classify: the classifier.
    """
    if again is None:
        return classify(dropout(features))
    if not dropout.p:
        with not_kept((features, again)):
            return classify(features)
    factors = dropout(features.new_ones(*features.shape[:2], 1, 1))
    dropped = features.mul_(factors)
    with not_kept((dropped, Recomputed(lambda: again() * factors, features.device.type, again))):
        return classify(dropped)
