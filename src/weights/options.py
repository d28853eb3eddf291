"""How weights are loaded, as a config says it."""

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

from torch import nn

from src.classes import ClassList
from src.layers.position_bias.table import ResizeMethod
from src.weights.load import PARTS, Part, load_weights
from src.weights.report import WeightsReport


@dataclass(frozen=True)
class LoadOptions:
    """How ``--model.weights`` are loaded.

    Args:
        strict: true: all that the layout of the weights promises must be there; false: any of it may be missing; a list
            of names, or beginnings of names, of the model's weights: these may.
        resize: how a bias table is fitted to another window: ``bicubic``, ``bilinear`` or ``geometric``.
        parts: the parts of the model to fill.
        source_classes: what the outputs of the weights stand for, a file as ``data.classes`` takes it or ``ade20k``;
            null for what their file says.
        prefix: what stands before the names of the model that is meant, where a file holds several.
    """

    strict: bool | tuple[str, ...] = True
    resize: ResizeMethod = "bicubic"
    parts: tuple[Part, ...] = PARTS
    source_classes: str | None = None
    prefix: str | None = None

    def load(self, model: nn.Module, source: str | PathLike[str], classes: ClassList | None = None) -> WeightsReport:
        """Fills a model, see ``load_weights``.

        Args:
            model: a ``Segmenter``, or an encoder alone.
            source: the weights.
            classes: classes of the model's outputs.

        Raises:
            FileNotFoundError: there are no such weights, or no such file of classes.
            ValueError: see ``load_weights``.
        """
        return load_weights(
            model,
            source,
            strict=self.strict,
            resize=self.resize,
            parts=self.parts,
            classes=classes,
            source_classes=None if self.source_classes is None else named_classes(self.source_classes),
            prefix=self.prefix,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types."""
        return asdict(self)


def named_classes(told: str) -> ClassList:
    """The class list of a file, or ADE20K's.

    Args:
        told: ``ade20k``, or a file with one class a line.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read.
    """
    return ClassList.ade20k() if told.casefold() == "ade20k" else ClassList.from_file(told)
