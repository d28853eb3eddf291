"""Scores of a large image from windows of it, a few at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import torch
from torch import Tensor

from src.layers.size import Size
from src.models import Segmenter
from src.models.features import cells


@dataclass(frozen=True)
class SlidingWindow:
    """Scores an image in overlapping windows; where several cover a cell their scores are averaged.

    Memory follows the window and ``batch_size``, but for the image itself and a score for each class and cell of its
    grid. Windows begin at multiples of the model's stride, so that their cells are the image's. A window that would
    reach beyond the image ends with it.

    Args:
        size: height and width of a window, in pixels of the model's input; not below the model's stride.
        stride: rows and columns from one window to the next, in pixels, rounded down to a multiple of the model's
            stride; None: two thirds of the size.
        batch_size: most windows that the model is given at once.

    Raises:
        ValueError: a number is below 1, or a stride leaves pixels out.

    Source: the windows and the average are those of mmsegmentation's ``mode: slide``, which averages scores that were
    resized window by window.
    """

    size: Size = (512, 512)
    stride: Size | None = None
    batch_size: int = 1

    def __post_init__(self) -> None:
        for name, pair in (("size", self.size), ("stride", self.stride or self.size)):
            if not isinstance(pair, Sequence) or len(pair) != 2 or min(pair) < 1:
                raise ValueError(
                    f"{name} of a sliding window must be a height and a width from 1 up, got {pair}; (512, 512) is a "
                    f"usual size."
                )
        if self.batch_size < 1:
            raise ValueError(f"batch_size of a sliding window must be at least 1, got {self.batch_size}; give 1.")
        if any(step > side for step, side in zip(self.stride or self.size, self.size, strict=True)):
            raise ValueError(
                f"stride of a sliding window must not be above its size {self.size}, got {self.stride}; two thirds of "
                f"the size are usual."
            )

    @torch.no_grad()
    def logits(self, model: Segmenter, images: Tensor) -> Tensor:
        """Scores of images of one size.

        Args:
            model: the segmenter, in eval mode.
            images: normalised ``(B, C, H, W)``.

        Returns:
            Scores ``(B, K, h, w)`` at the model's stride, float32 or float64.

        Raises:
            ValueError: there is no image, or the windows are smaller than the model's stride.
        """
        if min(self.size) < model.stride:
            raise ValueError(
                f"size of a sliding window must be at least the model's stride {model.stride}, got {self.size}; give "
                f"larger windows."
            )
        if not len(images):
            raise ValueError("images must be at least one, got none; leave empty batches out.")
        scores = [self._image_logits(model, image) for image in images]
        return scores[0][None] if len(scores) == 1 else torch.stack(scores)

    def _image_logits(self, model: Segmenter, image: Tensor) -> Tensor:
        """Scores ``(K, h, w)`` of one image."""
        height, width = cells((image.shape[1], image.shape[2]), model.stride)
        count = image.new_zeros(height, width, dtype=torch.float32)
        total: Tensor | None = None
        for windows in self._batches(image, model.stride):
            scores = model(torch.stack([image[:, rows, columns] for rows, columns in windows])).logits
            if total is None:
                dtype = torch.promote_types(scores.dtype, torch.float32)
                total = scores.new_zeros(scores.shape[1], height, width, dtype=dtype)
            for (rows, columns), score in zip(windows, scores, strict=True):
                top, left = rows.start // model.stride, columns.start // model.stride
                place = slice(top, top + score.shape[1]), slice(left, left + score.shape[2])
                total[:, *place] += score
                count[place] += 1
        return cast(Tensor, total).div_(count)

    def _batches(self, image: Tensor, model_stride: int) -> Iterator[list[tuple[slice, slice]]]:
        """Rows and columns of windows that go together: no more than ``batch_size``, all of one size."""
        strides = self.stride or (-(-2 * self.size[0] // 3), -(-2 * self.size[1] // 3))
        down, across = (
            list(_windows(extent, side, max(step // model_stride, 1) * model_stride, model_stride))
            for extent, side, step in zip(image.shape[1:], self.size, strides, strict=True)
        )
        places = ((rows, columns) for rows in down for columns in across)
        for _, alike in groupby(places, lambda place: tuple(side.stop - side.start for side in place)):
            members = list(alike)
            for start in range(0, len(members), self.batch_size):
                yield members[start : start + self.batch_size]


def _windows(extent: int, side: int, step: int, model_stride: int) -> Iterator[slice]:
    """The windows along one axis, the last of which ends where the axis does."""
    last = max(0, -(-(extent - side) // model_stride) * model_stride)
    for start in range(0, last, step):
        yield slice(start, start + side)
    yield slice(last, min(last + side, extent))
