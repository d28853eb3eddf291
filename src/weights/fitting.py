"""Fitting weights, one by one, to a model that differs from the one they were trained in."""

import math
from collections.abc import Iterator
from typing import Any, cast

from torch import Tensor, nn

from src.layers.position_bias import ContinuousBias, TableBias
from src.layers.position_bias.table import ResizeMethod
from src.layers.size import Size
from src.models import Segmenter, SwinTransformerV2
from src.models.compiled import uncompiled
from src.models.swin_encoder import SwinEncoder
from src.weights.class_rows import ClassRows
from src.weights.published import PublishedWeights
from src.weights.report import Adaptation
from src.weights.resize import resized_channels, resized_embedding, resized_table

_TABLE = "relative_position_bias_table"


class Fitting:
    """What is done to the weights of a file so that a model can take them.

    Args:
        model: a ``Segmenter``, or an encoder alone.
        published: the weights.
        resize: how a bias table is fitted to another window.
        rows: which rows of the classifiers are carried over; None where no classifier is to be filled.

    Attributes:
        adapted: what was changed.
        refused: names of weights that do not fit, and why.
        notes: what a user should know.

    Raises:
        ValueError: the weights are of the other version of Swin.
    """

    def __init__(
        self,
        model: nn.Module,
        published: PublishedWeights,
        resize: ResizeMethod = "bicubic",
        rows: ClassRows | None = None,
    ) -> None:
        self.encoder: Any = uncompiled(model.encoder) if isinstance(model, Segmenter) else model
        self.published = published
        self.resize = resize
        self.rows = rows
        self.adapted: list[Adaptation] = []
        self.refused: dict[str, str] = {}
        self.notes: list[str] = []
        self._check_version()
        self._follow_windows()

    def fitted(self, name: str, value: Tensor, target: Tensor) -> Tensor | None:
        """A weight in the shape and the type that the model has, or None where it cannot be brought into them.

        Args:
            name: its name in the model.
            value: the weight as the file has it.
            target: the model's.
        """
        if not value.is_floating_point() and target.is_floating_point():
            return self._refuse(name, f"{value.dtype} in the file, {target.dtype} in the model")
        shaped = self._shaped(name, value, target)
        if shaped is None:
            return None
        typed = shaped.to(target.dtype)
        if typed.is_floating_point() and not typed.isfinite().all():
            return self._refuse(name, f"values beyond the range of {target.dtype}")
        return typed

    def settle(self) -> None:
        """Changes what is no weight in the model: the reach that scales the coordinates of Swin V2."""
        if any(window != own for window, own in self._reaches()):
            self.encoder.set_pretrained_windows([window for window, _ in self._reaches()])

    def _shaped(self, name: str, value: Tensor, target: Tensor) -> Tensor | None:
        if self.rows is not None and self.rows.concern(name) and value.shape[1:] == target.shape[1:]:
            rows = self.rows.carried(value, target)
            return rows if rows is value or rows is None else self._adapt(name, self.rows.what, rows)
        if name.endswith(_TABLE) and (bias := self._bias(name)) is not None and value.shape[1:] == target.shape[1:]:
            return self._of_window(name, value, bias)
        if value.shape == target.shape and name != "encoder.absolute_pos_embed":
            return value
        if name == "encoder.absolute_pos_embed" and value.ndim == 4 and value.shape[1] == target.shape[1]:
            return self._of_grid(name, value, target)
        same_patches = value.ndim == target.ndim and value.shape[2:] == target.shape[2:]
        if name == "encoder.patch_embed.proj.weight" and same_patches and value.shape[0] == target.shape[0]:
            how = "sum" if target.shape[1] == 1 else "repeated and scaled"
            what = f"input channels {value.shape[1]} -> {target.shape[1]} ({how})"
            return self._adapt(name, what, resized_channels(value, target.shape[1]))
        return self._refuse(name, f"{_by(value.shape)} in the file, {_by(target.shape)} in the model")

    def _adapt(self, name: str, what: str, value: Tensor) -> Tensor:
        self.adapted.append(Adaptation(name, what))
        return value

    def _refuse(self, name: str, why: str) -> Tensor | None:
        self.refused[name] = why
        return None

    def _check_version(self) -> None:
        version, encoder = self.published.version, self.encoder
        ours = 2 if isinstance(encoder, SwinTransformerV2) else 1
        if version is not None and isinstance(encoder, SwinEncoder) and version != ours:
            raise ValueError(
                f"{self.published.source} holds Swin V{version}, and the model's encoder is {type(encoder).__name__}; "
                f"set model.model.encoder to src.models.SwinTransformer{'V2' if version == 2 else ''}, or give weights "
                f"of V{ours}."
            )

    def _biases(self) -> Iterator[Any]:
        """The position bias of each stage's first block."""
        for stage in cast(Any, self.encoder).layers if isinstance(self.encoder, SwinEncoder) else ():
            yield stage.blocks[0].attn.position_bias

    def _reaches(self) -> list[tuple[Size, Size]]:
        """For each stage of Swin V2, the window whose reach the weights know, and the one that the model takes."""
        told = self.published.windows
        biases = [bias for bias in self._biases() if isinstance(bias, ContinuousBias)]
        if told is None or len(biases) != len(told.used):
            return []
        reaches = (known or used for used, known in zip(told.used, told.pretrained, strict=True))
        return [(reach, cast(Size, bias.pretrained_window)) for reach, bias in zip(reaches, biases, strict=True)]

    def _follow_windows(self) -> None:
        if self.published.version != 2 or not isinstance(self.encoder, SwinTransformerV2):
            return
        told = self.published.windows
        if told is None:
            self.notes.append(
                "the file does not tell its windows, which scale the coordinates of Swin V2: those of the model were "
                "taken for them"
            )
            return
        for stage, (reach, bias, used) in enumerate(zip(self._reaches(), self._biases(), told.used, strict=False)):
            if used != bias.window:
                what = f"window {_by(used)} -> {_by(bias.window)} (through its coordinates)"
            elif reach[0] != reach[1]:
                what = f"pretrained window of the coordinates {_by(reach[1])} -> {_by(reach[0])}"
            else:
                continue
            self.adapted.append(Adaptation(f"encoder.layers.{stage}", what))

    def _bias(self, name: str) -> TableBias | None:
        """The model's position bias that a weight belongs to, where it is a table."""
        try:
            bias = self.encoder.get_submodule(name.removeprefix("encoder.").rpartition(".")[0])
        except AttributeError:
            return None
        return bias if isinstance(bias, TableBias) else None

    def _of_window(self, name: str, value: Tensor, bias: TableBias) -> Tensor | None:
        window = self._window_of(int(name.split(".")[2]), len(value), bias)
        if window is None:
            return self._refuse(name, f"a table of {len(value)} rows is of no square window, and nothing tells which")
        if window == bias.window:
            return value
        what = f"window {_by(window)} -> {_by(bias.window)} ({self.resize})"
        return self._adapt(name, what, resized_table(value, window, bias.window, self.resize))

    def _window_of(self, stage: int, rows: int, bias: TableBias) -> Size | None:
        """The window of a table: as the file tells, else the model's where it has as many rows, else a square one."""
        told = self.published.windows
        window = told.used[stage] if told is not None and stage < len(told.used) else None
        side = (math.isqrt(rows) + 1) // 2
        for candidate in (window, bias.window, (side, side)):
            if candidate and (2 * candidate[0] - 1) * (2 * candidate[1] - 1) == rows:
                return candidate
        return None

    def _of_grid(self, name: str, value: Tensor, target: Tensor) -> Tensor:
        if value.shape == target.shape:
            return value
        if not self.published.grid_is_told and value.numel() == target.numel():
            return value.reshape(target.shape)
        grid = (target.shape[2], target.shape[3])
        what = f"position embedding {_by(value.shape[2:])} -> {_by(grid)} tokens (bicubic)"
        return self._adapt(name, what, resized_embedding(value, grid))


def _by(extents: Any) -> str:
    return "x".join(map(str, extents)) or "one number"
