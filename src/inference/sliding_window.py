"""Scores of a large image from windows of it, a few at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from src.layers.size import Size
from src.models import Segmenter
from src.models.features import cells


@dataclass(frozen=True)
class SlidingWindow:
    """Scores an image in overlapping windows; where several cover a cell their scores are averaged.

    Memory follows the window and ``batch``, but for the image itself and one score for each class and cell of its grid.
    Windows begin at multiples of the model's stride, so that their cells are the image's. A window that would reach
    beyond the image ends with it; where it is the only one along an axis it is as long as the image.

    Args:
        size: height and width of a window, in pixels of the model's input.
        step: rows and columns from one window to the next, in pixels, rounded down to the model's stride; None: two
            thirds of the size.
        batch: most windows that the model is given at once.

    Raises:
        ValueError: a number is below 1, or steps would leave pixels out.

    Source: the windows and the average are those of mmsegmentation's ``mode: slide``, which averages scores that were
    resized window by window.
    """

    size: Size = (512, 512)
    step: Size | None = None
    batch: int = 1

    def __post_init__(self) -> None:
        if min(self.size) < 1 or self.batch < 1:
            raise ValueError(
                f"a sliding window must have a size and a batch of at least 1, got {self.size} and {self.batch}; "
                f"(512, 512) and 1 are usual."
            )
        if self.step is not None and not all(
            1 <= step <= side for step, side in zip(self.step, self.size, strict=True)
        ):
            raise ValueError(
                f"the step of a sliding window must lie between 1 and its size {self.size}, got {self.step}; two "
                f"thirds of the size are usual."
            )

    @torch.no_grad()
    def logits(self, model: Segmenter, images: Tensor) -> Tensor:
        """Scores of images of one size.

        Args:
            model: the segmenter, in eval mode.
            images: normalised ``(B, C, H, W)``.

        Returns:
            Scores ``(B, K, h, w)`` at the model's stride, as ``model`` gives them for whole images; float32 or float64.
        """
        height, width = cells((images.shape[2], images.shape[3]), model.stride)
        total: Tensor | None = None
        count = images.new_zeros(height, width, dtype=torch.float32)
        for image in range(len(images)):
            for windows in self._batches(images, model.stride):
                crops = torch.stack([images[image, :, rows, columns] for rows, columns in windows])
                scores = model(crops).logits
                scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
                if total is None:
                    total = scores.new_zeros(len(images), scores.shape[1], height, width)
                for (rows, columns), score in zip(windows, scores, strict=True):
                    top, left = rows.start // model.stride, columns.start // model.stride
                    place = slice(top, top + score.shape[1]), slice(left, left + score.shape[2])
                    total[image, :, *place] += score
                    if image == 0:
                        count[place] += 1
        assert total is not None
        return total.div_(count)

    def _batches(self, images: Tensor, stride: int) -> Iterator[list[tuple[slice, slice]]]:
        """Rows and columns of windows that go together: no more than ``batch``, all of one size."""
        steps = self.step or (-(-2 * self.size[0] // 3), -(-2 * self.size[1] // 3))
        down, across = (
            list(_windows(extent, side, max(step // stride, 1) * stride, stride))
            for extent, side, step in zip(images.shape[2:], self.size, steps, strict=True)
        )
        places = ((rows, columns) for rows in down for columns in across)
        for _, alike in groupby(places, lambda place: tuple(side.stop - side.start for side in place)):
            members = list(alike)
            for start in range(0, len(members), self.batch):
                yield members[start : start + self.batch]


def _windows(extent: int, side: int, step: int, stride: int) -> Iterator[slice]:
    """The windows along one axis, the last of which ends where the axis does."""
    last = max(0, -(-(extent - side) // stride) * stride)
    for start in range(0, last, step):
        yield slice(start, start + side)
    yield slice(last, min(last + side, extent))
