"""UPerNet: a pyramid pooling of the coarsest level, a feature pyramid over all of them.

Shapes: B images, L levels of C_i channels and size h_i x w_i from fine to coarse, D decoder channels, K classes.
"""

from collections.abc import Iterator, Sequence
from typing import Self, cast

import torch
from torch import Tensor, nn

from src.layers.average_pool import GridAverage
from src.layers.conv3x3 import large_enough
from src.layers.derived import Derived
from src.layers.precision import working_dtype
from src.layers.recompute import Recomputed, not_kept
from src.layers.untouched import hooked, untouched
from src.models.conv_module import ConvModule, Norm, classified, classifier, resized
from src.models.features import FeatureSpec, check_channels
from src.models.settings import RecordsSettings
from src.models.upernet_strips import FinestLevel


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
            nn.Sequential(GridAverage(size), ConvModule(coarse.channels, channels, 1, norm)) for size in pool_sizes
        )
        self.bottleneck = ConvModule(coarse.channels + len(pool_sizes) * channels, channels, 3, norm)
        self.lateral_convs = nn.ModuleList(ConvModule(spec.channels, channels, 1, norm) for spec in fine)
        self.fpn_convs = nn.ModuleList(ConvModule(channels, channels, 3, norm) for _ in fine)
        self.fpn_bottleneck = ConvModule(len(self.feature_specs) * channels, channels, 3, norm)
        self.dropout = nn.Dropout2d(dropout)
        self.conv_seg = classifier(channels, num_classes)
        self._prepared: Derived[FinestLevel] = Derived()

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
        if not torch.compiler.is_compiling():
            if torch.is_grad_enabled():
                self._prepared.clear()  # an optimizer may be about to change the weights unseen
            elif self._is_fixed():
                return self._in_strips(features)
            if any(hooked(module) for module in self._conv_modules()):
                return self._by_modules(features)
        return self._whole(features)

    def train(self, mode: bool = True) -> Self:
        """Sets the mode, see ``torch.nn.Module``.

        Args:
            mode: True to train.
        """
        self._prepared.clear()
        return super().train(mode)

    def _conv_modules(self) -> Iterator[ConvModule]:
        return (module for module in self.modules() if isinstance(module, ConvModule))

    def _is_fixed(self) -> bool:
        """Whether all that happens can be put into prepared weights."""
        if not len(self.lateral_convs) or (self.dropout.training and self.dropout.p) or hooked(self.dropout):
            return False
        return untouched(self.conv_seg, nn.Conv2d) and all(
            module.folds and not hooked(module) for module in self._conv_modules()
        )

    def _by_modules(self, features: Sequence[Tensor]) -> Tensor:
        """The same, module by module as it is published, so that hooks see every map."""
        size = features[0].shape[2:]
        pooled = [resized(module(features[-1]), features[-1].shape[2:]) for module in self.psp_modules]
        merged = self.bottleneck(torch.cat([features[-1], *pooled], 1))
        outputs = [merged]
        levels = list(zip(features[:-1], self.lateral_convs, self.fpn_convs, strict=True))
        for feature, lateral, conv in reversed(levels):
            merged = lateral(feature) + resized(merged, feature.shape[2:])
            outputs.insert(0, conv(merged))
        joined = torch.cat([resized(output, size) for output in outputs], 1)
        return self.conv_seg(self.dropout(self.fpn_bottleneck(joined)))

    def _whole(self, features: Sequence[Tensor]) -> Tensor:
        _, outputs = self._levels(features, 0)
        with not_kept(*outputs):
            joined = self.fpn_bottleneck.joined([output for output, _ in outputs], features[0].shape[2:])
        return classified(*joined, self.dropout, self.conv_seg)

    def _in_strips(self, features: Sequence[Tensor]) -> Tensor:
        """The same where no gradient is wanted and norms are fixed, without maps of the finest level."""
        merged, outputs = self._levels(features, 1)
        finest = self._finest(features[0])
        maps = [features[0], merged, *(output for output, _ in outputs)]
        rows = [level.to(finest.dtype).permute(0, 2, 3, 1) for level in maps]
        result = rows[0].new_empty(*rows[0].shape[:3], self.conv_seg.out_channels)  # (B, h_0, w_0, K)
        for image, into in enumerate(result):
            own, above, *coarser = (level[image] for level in rows)
            finest.score(own, above, coarser, into)
        return result.permute(0, 3, 1, 2)

    def _finest(self, feature: Tensor) -> FinestLevel:
        modules = (cast(ConvModule, self.lateral_convs[0]), cast(ConvModule, self.fpn_convs[0]), self.fpn_bottleneck)
        size, dtype = (feature.shape[2], feature.shape[3]), working_dtype(feature)
        sources = [
            tensor for module in (*modules, self.conv_seg) for tensor in module.state_dict(keep_vars=True).values()
        ]
        eps = tuple(cast(nn.BatchNorm2d, module.bn).eps for module in modules)
        options = (large_enough(size), dtype, eps, *(module.numerics for module in modules))
        return self._prepared.get(sources, options, lambda: FinestLevel.prepared(*modules, self.conv_seg, size, dtype))

    def _levels(self, features: Sequence[Tensor], finest: int) -> tuple[Tensor, list[tuple[Tensor, Recomputed | None]]]:
        """The sum of the levels from ``finest`` on, and each of these levels after its convolution."""
        merged = self._pooled(features[-1])
        outputs: list[tuple[Tensor, Recomputed | None]] = [(merged, None)]
        for level in reversed(range(finest, len(self.lateral_convs))):
            lateral = cast(ConvModule, self.lateral_convs[level])
            conv = cast(ConvModule, self.fpn_convs[level])
            size = features[level].shape[2:]
            merged, again = _added(*lateral.joined([features[level]], size), merged)
            with not_kept((merged, again if level == 0 else None)):  # the next level keeps the others anyway
                outputs.insert(0, conv.joined([merged], size))
        return merged, outputs

    def _pooled(self, feature: Tensor) -> Tensor:
        pooled = [module(feature) for module in self.psp_modules]
        return self.bottleneck.joined([feature, *pooled], feature.shape[2:])[0]


def _added(lateral: Tensor, again: Recomputed | None, coarser: Tensor) -> tuple[Tensor, Recomputed | None]:
    """A level with the resized sum of all coarser ones, and how that is made again."""
    size, kept = lateral.shape[2:], coarser.detach()
    merged = lateral + resized(coarser, size)
    if again is None:
        return merged, None
    own = again
    return merged, Recomputed(lambda: own() + resized(kept, size), kept.device.type, own)


def _fine_to_coarse(features: Sequence[FeatureSpec]) -> tuple[FeatureSpec, ...]:
    specs = tuple(FeatureSpec(*spec) for spec in features)
    strides = [spec.stride for spec in specs]
    if not specs or strides != sorted(strides):
        raise ValueError(
            f"features must be levels from fine to coarse, got strides {strides}; order the encoder's feature_specs."
        )
    return specs
