"""From the pixels of a file to the input of a model: the one definition that validating and predicting share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Preprocessing:
    """Resizing and normalisation of an image.

    Args:
        resize: largest long side and largest short side in pixels, for example ``(2048, 512)``; the aspect is kept and
            small images grow too. None keeps the size.
        mean: what to subtract from each channel, in 0..255; its length is the number of channels.
        std: what to divide each channel by, in 0..255.

    Raises:
        ValueError: a value is out of range, or ``mean`` and ``std`` differ in length.

    Source: the keep-ratio resize of mmsegmentation's test pipeline.
    """

    resize: tuple[int, int] | None = None
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __post_init__(self) -> None:
        for key in ("resize", "mean", "std"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
        if self.resize is not None and (len(self.resize) != 2 or min(self.resize) < 1):
            raise ValueError(
                f"preprocessing.resize must be two sizes in pixels, long side and short side, got {self.resize}; "
                f"for example (2048, 512), or null to keep the size."
            )
        if not self.mean or len(self.mean) != len(self.std):
            raise ValueError(
                f"preprocessing.mean and preprocessing.std must have one number for each channel, "
                f"got {len(self.mean)} and {len(self.std)}; give both the same length."
            )
        if min(self.std) <= 0:
            raise ValueError(f"preprocessing.std must be above 0, got {self.std}; it divides the pixel values.")

    @property
    def channels(self) -> int:
        """Number of channels of the images."""
        return len(self.mean)

    def input_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Height and width, in pixels, that an image of ``size`` has after resizing.

        Args:
            size: height and width in pixels.
        """
        if self.resize is None:
            return size
        factor = min(max(self.resize) / max(size), min(self.resize) / min(size))
        return max(1, int(size[0] * factor + 0.5)), max(1, int(size[1] * factor + 0.5))

    def __call__(self, image: np.ndarray | Tensor) -> Tensor:
        """The input of a model, ``(C, h, w)`` float32, of an image ``(H, W, C)`` uint8.

        Args:
            image: pixels ``(H, W, C)``, uint8, RGB where there are three channels.

        Raises:
            ValueError: the image has another shape or type.
        """
        pixels = self._as_tensor(image)
        size = self.input_size((pixels.shape[1], pixels.shape[2]))
        if size == tuple(pixels.shape[1:]):
            return self._normalised(pixels.float())
        # channels last is many times faster, and gives the same numbers for up to three channels
        pixels = pixels.float() if self.channels <= 3 else pixels.float().contiguous()
        return self._normalised(F.interpolate(pixels[None], size=size, mode="bilinear", align_corners=False)[0])

    def normalise(self, image: np.ndarray | Tensor) -> Tensor:
        """The image at its own size, ``(C, H, W)`` float32, less the mean and divided by the standard deviation.

        Args:
            image: pixels ``(H, W, C)``, uint8, RGB where there are three channels.

        Raises:
            ValueError: the image has another shape or type.
        """
        return self._normalised(self._as_tensor(image).float())

    def to_dict(self) -> dict[str, Any]:
        """Everything in lists and numbers."""
        return {
            "resize": None if self.resize is None else list(self.resize),
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Preprocessing":
        """The preprocessing that ``to_dict`` wrote.

        Args:
            values: resize, mean and std.
        """
        return cls(**values)

    def _as_tensor(self, image: np.ndarray | Tensor) -> Tensor:
        """A view ``(C, H, W)`` uint8 of the image, whose channels lie side by side in memory."""
        if not isinstance(image, Tensor):
            # a mirrored view of one row or column counts as contiguous, but torch does not take it
            image = image.copy() if min(image.strides, default=0) < 0 else image
            image = torch.from_numpy(np.require(image, requirements=["C", "W"]))
        if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[2] != self.channels or image.numel() == 0:
            raise ValueError(
                f"image must be (H, W, {self.channels}) of uint8, got {tuple(image.shape)} of {image.dtype}; convert "
                f"it, or give preprocessing.mean and preprocessing.std one number for each channel."
            )
        return image.permute(2, 0, 1)

    def _normalised(self, pixels: Tensor) -> Tensor:
        """``pixels`` less the mean and divided by the standard deviation, in place where they are contiguous."""
        mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return pixels.contiguous().sub_(mean).div_(std)
