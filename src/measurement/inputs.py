"""What the models are measured on: images, masks and a photograph, drawn at random."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from src.layers.size import Size
from src.measurement.options import Options
from src.preprocessing import Preprocessing

_PATCH = 8  # pixels of one label side by side, as in real masks, where a label seldom stands alone


@dataclass(frozen=True)
class Inputs:
    """Drawn inputs of one size.

    Args:
        images: normalised images ``(B, 3, H, W)`` for inference.
        training_images: normalised images for training.
        masks: labels ``(B, H, W)`` int64 of these, a tenth of them 255.
        photograph: pixels ``(h, w, 3)`` uint8 of a file that is to be evaluated.
        labels: its labels ``(h, w)`` int64 at its own size.
    """

    images: Tensor
    training_images: Tensor
    masks: Tensor
    photograph: np.ndarray
    labels: Tensor


def draw(options: Options) -> Inputs:
    """Inputs that are the same whenever the options are.

    Args:
        options: sizes, batches, classes and device.
    """
    height, width = options.size
    photograph_size = photograph(options.size)
    generator = torch.Generator().manual_seed(0)
    device = torch.device(options.device)

    def images(count: int) -> Tensor:
        return torch.randn(count, 3, height, width, generator=generator).to(device)

    def labels(count: int, rows: int, columns: int) -> Tensor:
        coarse = (count, -(-rows // _PATCH), -(-columns // _PATCH))
        drawn = torch.randint(0, options.num_classes, coarse, generator=generator)
        drawn[torch.rand(coarse, generator=generator) < 0.1] = 255
        drawn = drawn.repeat_interleave(_PATCH, 1).repeat_interleave(_PATCH, 2)
        return drawn[:, :rows, :columns].contiguous().to(device)

    return Inputs(
        images(options.inference_batch),
        images(options.training_batch),
        labels(options.training_batch, height, width),
        torch.randint(0, 256, (*photograph_size, 3), dtype=torch.uint8, generator=generator).numpy(),
        labels(1, *photograph_size)[0],
    )


def photograph(size: Size) -> Size:
    """Height and width of a photograph whose shorter side becomes that of ``size``: 480x640 at 512x512."""
    return max(1, min(size) * 15 // 16), max(1, min(size) * 5 // 4)


def preprocessing(options: Options) -> Preprocessing:
    """How a photograph becomes an input: its shorter side that of the images, as in the published evaluation."""
    return Preprocessing(resize=(4 * min(options.size), min(options.size)))
