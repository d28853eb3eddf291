"""The model that is trained and asked: an encoder, a decoder on its features, and an auxiliary head for training.

Shapes: B images of at most H x W pixels, K classes, s the decoder's stride in pixels.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from src.models.features import FeatureSpec, check_channels, check_sizes
from src.models.settings import Settings, build, class_path, plain

DecoderFactory = Callable[[Sequence[FeatureSpec], int], nn.Module]
"""A decoder's class, or what makes one, called with the encoder's ``features`` and ``num_classes``."""

Size = tuple[int, int]
"""Height and width, in pixels."""


class SegmenterOutput(NamedTuple):
    """What a ``Segmenter`` gives.

    Attributes:
        logits: scores ``(B, K, ceil(H / s), ceil(W / s))`` at the decoder's stride s.
        auxiliary_logits: scores of the auxiliary head at its own stride; None outside training or without one.
    """

    logits: Tensor
    auxiliary_logits: Tensor | None


class Segmenter(nn.Module):
    """An encoder with a decoder and, in training, an auxiliary head.

    Args:
        encoder: the built encoder. It has ``feature_specs`` and gives a list of maps; where it has ``takes_sizes``, its
            ``forward`` takes the true sizes of a padded batch as well.
        decoder: makes the decoder from the encoder's feature specs and the number of classes. A decoder maps the list
            of features to logits and has their ``stride`` in pixels.
        auxiliary: makes a second decoder whose logits are for the loss in training only; None for none.
        num_classes: number of classes K.

    Attributes:
        stride: pixels per cell of the logits.

    Raises:
        ValueError: the encoder has no ``feature_specs``, or a decoder no ``stride``.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: DecoderFactory,
        auxiliary: DecoderFactory | None = None,
        *,
        num_classes: int,
    ) -> None:
        super().__init__()
        self.feature_specs = tuple(FeatureSpec(*spec) for spec in _promised(encoder, "encoder", "feature_specs"))
        self.num_classes = num_classes
        self.encoder = encoder
        self.decoder = decoder(self.feature_specs, num_classes)
        self.auxiliary = auxiliary(self.feature_specs, num_classes) if auxiliary is not None else None
        self.stride = int(_promised(self.decoder, "decoder", "stride"))
        self.auxiliary_stride = int(_promised(self.auxiliary, "auxiliary", "stride")) if self.auxiliary else None

    @property
    def settings(self) -> Settings:
        """Class path and arguments of the model and its parts, in plain types; see ``from_settings``.

        Raises:
            ValueError: a part does not tell how it was built.
        """
        parts = {
            "encoder": _recorded(self.encoder, "encoder"),
            "decoder": _recorded(self.decoder, "decoder"),
            "auxiliary": _recorded(self.auxiliary, "auxiliary") if self.auxiliary is not None else None,
        }
        return {"class_path": class_path(type(self)), "init_args": parts | {"num_classes": self.num_classes}}

    @classmethod
    def from_settings(cls, settings: Settings, num_classes: int | None = None) -> Self:
        """A new model, its weights at random, as ``settings`` describe it.

        Args:
            settings: what another model's ``settings`` gave.
            num_classes: number of classes; None for the recorded one.

        Raises:
            ImportError: a part's class cannot be found.
        """
        parts = settings["init_args"]
        return cls(
            build(parts["encoder"]),
            functools.partial(build, parts["decoder"]),
            functools.partial(build, parts["auxiliary"]) if parts["auxiliary"] is not None else None,
            num_classes=parts["num_classes"] if num_classes is None else num_classes,
        )

    def forward(self, images: Tensor, sizes: Sequence[Size] | None = None) -> SegmenterOutput:
        """Score every cell of the decoder's grid.

        In eval mode each image gets the logits that it would get alone, whatever stands in its padding.

        Args:
            images: normalised images ``(B, C, H, W)``, padded at the right and at the bottom to a common size.
            sizes: height and width of each image without its padding, in pixels; None where none is padded.

        Returns:
            Logits, which are zero in the padding.

        Raises:
            ValueError: ``sizes`` do not fit the images, or the encoder's or a decoder's maps are not as promised.
        """
        whole = (images.shape[-2], images.shape[-1])
        if sizes is None:
            return self._decoded(self._encoded(images, whole), whole)
        groups = _groups(sizes, len(images), whole)
        if len(groups) > 1 and getattr(self.encoder, "takes_sizes", False):
            features = self._checked(self.encoder(images, [tuple(size) for size in sizes]), whole)
            parts = [
                [_taken(level, members, spec.size(*size)) for level, spec in zip(features, self.feature_specs, strict=True)]
                for size, members in groups.items()
            ]
        else:
            parts = [self._encoded(_taken(images, members, size), size) for size, members in groups.items()]
        outputs = [self._decoded(part, size) for part, size in zip(parts, groups, strict=True)]
        logits = _assembled([output.logits for output in outputs], groups, FeatureSpec(0, self.stride).size(*whole))
        return logits
