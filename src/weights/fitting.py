"""Fitting weights, one by one, to a model that differs from the one they were trained in."""

import re
from typing import Any, cast

from torch import Tensor, nn

from src.classes import ClassList
from src.layers.position_bias import TableBias
from src.layers.position_bias.table import ResizeMethod
from src.layers.size import Size
from src.models import Segmenter
from src.models.swin_v2 import SwinTransformerV2
from src.weights.class_names import matched_classes
from src.weights.published import PublishedWeights
from src.weights.report import Adaptation
from src.weights.resize import resized_channels, resized_embedding, resized_table

_TABLE = "relative_position_bias_table"
_CLASSIFIER = re.compile(r"(decoder|auxiliary)\.conv_seg\.(weight|bias)")


class Fitting:
    """What is done to the weights of a file so that a model can take them.

    Args:
        model: a ``Segmenter``, or an encoder alone.
        published: the weights.
        resize: how a bias table is fitted to another window.
        classes: classes of the model's outputs; None where they are not known.
        source_classes: classes of the weights' outputs; None for what their file says.

    Attributes:
        adapted: what was changed.
        refused: names of weights that do not fit, and why.
        new_classes: the model's classes that are not among those of the weights.
        notes: what a user should know.

    Raises:
        ValueError: the weights are of the other version of Swin, or ``source_classes`` are not as many as their
            outputs.
    """

    def __init__(
        self,
        model: nn.Module,
        published: PublishedWeights,
        resize: ResizeMethod = "bicubic",
        classes: ClassList | None = None,
        source_classes: ClassList | None = None,
    ) -> None:
        self.encoder: Any = model.encoder if isinstance(model, Segmenter) else model
        self.published = published
        self.resize = resize
        self.adapted: list[Adaptation] = []
        self.refused: dict[str, str] = {}
        self.notes: list[str] = []
        self.new_classes: list[str] = []
        self._check_version()
        self._windows = self._source_windows()
        self._rows = self._class_rows(model, classes, source_classes or published.classes)

    def fitted(self, name: str, value: Tensor, target: Tensor) -> Tensor | None:
        """A weight in the shape that the model has, or None where it cannot be brought into it.

        Args:
            name: its name in the model.
            value: the weight as the file has it.
            target: the model's.
        """
        if not value.is_floating_point() and target.is_floating_point():
            self.refused[name] = f"it holds whole numbers ({value.dtype})"
            return None
        if _CLASSIFIER.fullmatch(name):
            return self._with_rows(name, value, target)
        if value.shape == target.shape and not self._needs_another_window(name):
            return value
        if name.endswith(_TABLE):
            return self._with_window(name, value)
        if name == "encoder.absolute_pos_embed" and value.shape[1] == target.shape[1]:
            grid = (target.shape[2], target.shape[3])
            what = f"position embedding {_by(value.shape[2:])} -> {_by(grid)} tokens (bicubic)"
            return self._adapt(name, what, resized_embedding(value, grid))
        same_patches = value.ndim == target.ndim and value.shape[2:] == target.shape[2:]
        if name == "encoder.patch_embed.proj.weight" and same_patches and value.shape[0] == target.shape[0]:
            how = "sum" if target.shape[1] == 1 else "repeated and scaled"
            what = f"input channels {value.shape[1]} -> {target.shape[1]} ({how})"
            return self._adapt(name, what, resized_channels(value, target.shape[1]))
        self.refused[name] = f"{_by(value.shape)} in the file, {_by(target.shape)} in the model"
        return None

    def starts_anew(self, name: str) -> bool:
        """Whether a weight of the model is a classifier's whose classes are all others than those of the weights.

        Args:
            name: its name in the model.
        """
        return self._rows == {} and _CLASSIFIER.fullmatch(name) is not None

    def settle(self) -> None:
        """Changes what is no weight in the model: the reach that normalises coordinates of Swin V2."""
        told = self.published.windows
        if not isinstance(self.encoder, SwinTransformerV2) or told is None:
            return
        self.encoder.set_pretrained_windows(
            [pretrained or used for used, pretrained in zip(told.used, told.pretrained, strict=True)]
        )

    def _adapt(self, name: str, what: str, value: Tensor) -> Tensor:
        self.adapted.append(Adaptation(name, what))
        return value

    def _check_version(self) -> None:
        version, encoder = self.published.version, self.encoder
        ours = 2 if isinstance(encoder, SwinTransformerV2) else 1
        if version is not None and hasattr(encoder, "layers") and hasattr(encoder, "patch_embed") and version != ours:
            raise ValueError(
                f"{self.published.source} holds Swin V{version}, and the model's encoder is {type(encoder).__name__}; "
                f"set model.model.encoder to src.models.SwinTransformer{'V2' if version == 2 else ''}, or give weights "
                f"of V{ours}."
            )

    def _source_windows(self) -> list[Size]:
        """The window of each stage of the weights; empty where nothing tells."""
        if self.published.version == 1:
            return list(self.published.describe().windows or ())
        told, encoder = self.published.windows, self.encoder
        if self.published.version == 2 and isinstance(encoder, SwinTransformerV2):
            if told is None:
                self.notes.append(
                    "the file does not tell its windows, which scale the coordinates of Swin V2: those of the model "
                    "were taken for them"
                )
                return []
            windows = [stage.blocks[0].attn.window for stage in cast(Any, encoder.layers)]
            for stage, (used, window) in enumerate(zip(told.used, windows, strict=False)):
                if used != window:
                    what = f"window {_by(used)} -> {_by(window)} (through its coordinates)"
                    self.adapted.append(Adaptation(f"encoder.layers.{stage}", what))
        return list(told.used) if told else []

    def _bias(self, name: str) -> TableBias | None:
        """The model's position bias that a weight belongs to, where it is a table."""
        try:
            bias = self.encoder.get_submodule(name.removeprefix("encoder.").rpartition(".")[0])
        except AttributeError:
            return None
        return bias if isinstance(bias, TableBias) else None

    def _needs_another_window(self, name: str) -> bool:
        bias = self._bias(name) if name.endswith(_TABLE) else None
        return bias is not None and self._window_of(name) != bias.window

    def _window_of(self, name: str) -> Size | None:
        stage = int(name.split(".")[2])
        return self._windows[stage] if stage < len(self._windows) else None

    def _with_window(self, name: str, value: Tensor) -> Tensor | None:
        bias, window = self._bias(name), self._window_of(name)
        if bias is None or window is None or value.shape[1] != bias.num_heads:
            self.refused[name] = f"{value.shape[1]} heads in the file, another number in the model"
            return None
        what = f"window {_by(window)} -> {_by(bias.window)} ({self.resize})"
        return self._adapt(name, what, resized_table(value, window, bias.window, self.resize))

    def _class_rows(self, model: nn.Module, ours: ClassList | None, theirs: ClassList | None) -> dict[int, int] | None:
        """For each of the model's classes that the weights have, its row there; None: row for row, if as many."""
        outputs = self.published.state.get("decoder.conv_seg.weight")
        if outputs is None or not isinstance(model, Segmenter):
            return None
        if theirs is not None and len(theirs) != len(outputs):
            raise ValueError(
                f"source_classes must name the {len(outputs)} outputs of {self.published.source}, got {len(theirs)}; "
                f"give the list that it was trained with."
            )
        if ours is None or theirs is None:
            return self._without_names(len(outputs), model.num_classes, ours)
        match = matched_classes(theirs, ours)
        self.new_classes = [name for place, name in enumerate(ours.names) if place not in match.pairs]
        for name, others in match.unclear.items():
            self.notes.append(f"class {name} could be {' or '.join(others)}: not guessed, so it is new")
        return match.pairs

    def _without_names(self, theirs: int, ours: int, classes: ClassList | None) -> dict[int, int] | None:
        lack = "the file names no classes" if classes is not None else "the model's classes are not known"
        if theirs == ours:
            if classes is not None:
                self.notes.append(f"{lack}: its {theirs} were taken for the model's in their order")
            return None
        self.new_classes = list(classes.names) if classes is not None else [str(number) for number in range(ours)]
        self.notes.append(f"{lack}, so none of its {theirs} classes was carried over; give source_classes")
        return {}

    def _with_rows(self, name: str, value: Tensor, target: Tensor) -> Tensor | None:
        if value.shape[1:] != target.shape[1:]:
            self.refused[name] = f"{_by(value.shape)} in the file, {_by(target.shape)} in the model"
            return None
        rows = self._rows
        if rows is None or (len(value) == len(target) and rows == {place: place for place in range(len(value))}):
            return value
        if not rows:
            return None
        fitted = target.detach().clone()
        fitted[list(rows)] = value[list(rows.values())].to(fitted)
        what = f"classes {len(value)} -> {len(target)} ({len(rows)} by name)"
        return self._adapt(name, what, fitted)


def _by(extents: Any) -> str:
    return "x".join(map(str, extents))
