"""The model that is trained and asked: an encoder, a decoder on its features, and an auxiliary head for training.

Shapes: B images of at most H x W pixels, K classes, s the decoder's stride in pixels.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, cast

from torch import Tensor, nn

from src.layers.size import Size
from src.models.features import FeatureSpec, cells, check_features
from src.models.pretrained import Pretrained
from src.models.settings import Settings, build, class_path, factory, plain
from src.models.size_groups import group_by_size, put_together, take

DecoderFactory = Callable[[Sequence[FeatureSpec], int], nn.Module]
"""A decoder's class, or what makes one, called with the encoder's ``features`` and ``num_classes``."""


class SegmenterOutput(NamedTuple):
    """What a ``Segmenter`` gives.

    Attributes:
        logits: scores ``(B, K, ceil(H / s), ceil(W / s))`` at the decoder's stride s.
        auxiliary_logits: scores of the auxiliary head at its own stride; None outside training or without one.
    """

    logits: Tensor
    auxiliary_logits: Tensor | None


class Segmenter(Pretrained, nn.Module):
    """An encoder with a decoder and, in training, an auxiliary head.

    Args:
        encoder: the built encoder. It has ``feature_specs`` and gives a list of maps; where its ``takes_sizes`` is
            true, its ``forward`` takes the true sizes of a padded batch as well.
        decoder: makes the decoder from the encoder's feature specs and the number of classes. A decoder maps the list
            of features to logits and has their ``stride`` in pixels.
        auxiliary: makes a second decoder whose logits are for the loss in training only; None for none.
        num_classes: number of classes K.

    Attributes:
        stride: pixels per cell of the logits.
        joins_sizes: encode images of several sizes in one batch where the encoder takes sizes; otherwise size by size.

    Raises:
        ValueError: the encoder has no ``feature_specs``, or a decoder no ``stride``.
    """

    joins_sizes: bool = True

    def __init__(
        self,
        encoder: nn.Module,
        decoder: DecoderFactory,
        auxiliary: DecoderFactory | None = None,
        *,
        num_classes: int,
    ) -> None:
        super().__init__()
        self.feature_specs = tuple(FeatureSpec(*spec) for spec in _promised(encoder, "feature_specs", "encoder"))
        self.num_classes = num_classes
        self.encoder = encoder
        self.decoder = decoder(self.feature_specs, num_classes)
        self.auxiliary = auxiliary(self.feature_specs, num_classes) if auxiliary is not None else None
        self.stride = int(_promised(self.decoder, "stride", "decoder"))
        self._options = {"decoder": _options(decoder), "auxiliary": _options(auxiliary)}
        if self.auxiliary is not None:
            _promised(self.auxiliary, "stride", "auxiliary")

    @property
    def settings(self) -> Settings:
        """Class path and arguments of the model and its parts, in plain types; see ``from_settings``.

        Raises:
            ValueError: a part does not tell how it was built.
        """
        arguments: dict[str, Any] = {"encoder": _recorded(self.encoder, "model.model.encoder", None)}
        for name, options in self._options.items():
            head = getattr(self, name)
            arguments[name] = None if head is None else _recorded(head, f"model.model.{name}", options)
        return {"class_path": class_path(type(self)), "init_args": arguments | {"num_classes": self.num_classes}}

    @classmethod
    def from_settings(cls, settings: Settings, num_classes: int | None = None) -> Self:
        """A new model, its weights at random, as ``settings`` describe it.

        Args:
            settings: what another model's ``settings`` gave.
            num_classes: number of classes; None for the recorded one.

        Raises:
            ImportError: a part's class cannot be found.
            ValueError: a part is not a module.
        """
        parts = settings["init_args"]
        return cls(
            build(parts["encoder"]),
            factory(parts["decoder"]),
            factory(parts["auxiliary"]) if parts["auxiliary"] is not None else None,
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
            return self._scored(self._encoded(images), whole)
        groups = group_by_size(sizes, len(images), whole)
        if len(groups) > 1 and self.joins_sizes and getattr(self.encoder, "takes_sizes", False):
            features = self._checked(self.encoder(images, sizes), whole)
            pyramids = [self._taken(features, members, size) for size, members in groups.items()]
        else:
            pyramids = [self._encoded(take(images, members, size)) for size, members in groups.items()]
        outputs = [self._scored(pyramid, size) for pyramid, size in zip(pyramids, groups, strict=True)]
        auxiliary = [output.auxiliary_logits for output in outputs if output.auxiliary_logits is not None]
        return SegmenterOutput(
            put_together([output.logits for output in outputs], groups, cells(whole, self.stride)),
            put_together(auxiliary, groups, cells(whole, cast(Any, self.auxiliary).stride)) if auxiliary else None,
        )

    def true_region(self, logits: Tensor, size: Size) -> Tensor:
        """The part of an image's logits that is not padding.

        Args:
            logits: scores ``(..., h, w)`` at the decoder's stride s.
            size: height and width of the image without its padding, in pixels.

        Returns:
            Scores ``(..., ceil(height / s), ceil(width / s))``.
        """
        height, width = cells(size, self.stride)
        return logits[..., :height, :width]

    def _encoded(self, images: Tensor) -> list[Tensor]:
        return self._checked(self.encoder(images), (images.shape[-2], images.shape[-1]))

    def _checked(self, features: Sequence[Tensor], size: Size) -> list[Tensor]:
        check_features(features, self.feature_specs, size, type(self.encoder).__name__)
        return list(features)

    def _taken(self, features: Sequence[Tensor], members: Sequence[int], size: Size) -> list[Tensor]:
        levels = zip(features, self.feature_specs, strict=True)
        return [take(level, members, spec.size(*size)) for level, spec in levels]

    def _scored(self, features: list[Tensor], size: Size) -> SegmenterOutput:
        logits = _within(self.decoder, features, size)
        if self.auxiliary is None or not self.training:
            return SegmenterOutput(logits, None)
        return SegmenterOutput(logits, _within(self.auxiliary, features, size))


def _within(head: Any, features: Sequence[Tensor], size: Size) -> Tensor:
    logits, (height, width) = head(features), cells(size, head.stride)
    if logits.shape[-2] < height or logits.shape[-1] < width:
        raise ValueError(
            f"{type(head).__name__} must give at least {(height, width)} cells of stride {head.stride} for an image of "
            f"{size} pixels, got {tuple(logits.shape[-2:])}; set its `stride` to the pixels per cell of its logits."
        )
    return logits[..., :height, :width]


def _promised(part: Any, attribute: str, key: str) -> Any:
    if not hasattr(part, attribute):
        raise ValueError(
            f"model.model.{key} must have an attribute {attribute}, got a {type(part).__name__} without one; set it in "
            f"its __init__."
        )
    return getattr(part, attribute)


def _options(make: Callable[..., Any] | None) -> dict[str, Any] | None:
    """The arguments that a factory holds, or None where it hides them."""
    if isinstance(make, functools.partial):
        return dict(make.keywords)
    return {} if inspect.isclass(make) else None


def _recorded(part: nn.Module, key: str, options: dict[str, Any] | None) -> Settings:
    if hasattr(part, "settings"):
        given = {"features", "num_classes"}
        recorded: Any = part.settings
        arguments = {name: value for name, value in recorded["init_args"].items() if name not in given}
        return plain({"class_path": recorded["class_path"], "init_args": arguments}, key)
    if options is None:
        raise ValueError(
            f"{key} does not tell how it was built; derive {type(part).__name__} from "
            f"src.models.settings.RecordsSettings, build it with src.models.settings.build_recorded, or, where it is a "
            f"decoder, give the class itself with functools.partial for its options."
        )
    return plain({"class_path": class_path(type(part)), "init_args": options}, key)
