"""Augmentation of training images, the recipe of ADE20K; all of albumentations stands behind this file.

Shapes: images ``(H, W, C)`` uint8, masks ``(H, W)`` uint8 with 255 where there is no label.
"""

import os
import random
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations as A
import cv2
import numpy as np

from src.data.batch import IGNORE_INDEX
from src.data.byte_tables import counts, linear_table, looked_up, looked_up_in_hsv
from src.preprocessing import Preprocessing


@dataclass(frozen=True)
class RecipeAugmentation:
    """How training images are varied: scale, crop, flip, then colours.

    Args:
        scale_range: smallest and largest factor on the size that ``preprocessing.resize`` gives, drawn evenly.
        max_class_share: largest fraction of the labelled pixels of a crop that one class may hold; 1 allows all.
        crop_tries: how many crops to draw until one keeps to ``max_class_share``; the last is taken anyway.
        flip: probability of a flip from left to right.
        photometric: whether brightness, contrast, saturation and hue vary.

    Raises:
        ValueError: a value is out of range.

    Source: the training pipeline of Swin-Transformer-Semantic-Segmentation and mmsegmentation for ADE20K.
    """

    scale_range: tuple[float, float] = (0.5, 2.0)
    max_class_share: float = 0.75
    crop_tries: int = 10
    flip: float = 0.5
    photometric: bool = True

    def __post_init__(self) -> None:
        low, high = self.scale_range
        if not 0 < low <= high:
            raise ValueError(f"data.augmentation.scale_range must rise from above 0, got {self.scale_range}; swap it.")
        for key in ("max_class_share", "flip"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"data.augmentation.{key} must be in 0..1, got {getattr(self, key)}; give a fraction.")
        if self.crop_tries < 1:
            raise ValueError(f"data.augmentation.crop_tries must be at least 1, got {self.crop_tries}; raise it.")


class TrainingTransform:
    """The whole augmentation of an image and its mask, a function of (seed, epoch, index) alone.

    Args:
        settings: how much to vary.
        preprocessing: its ``resize`` is what the scale multiplies.
        crop_size: height and width of the largest crop in pixels; smaller images stay smaller.
        seed: of all draws, 0 or more.
    """

    def __init__(
        self, settings: RecipeAugmentation, preprocessing: Preprocessing, crop_size: tuple[int, int], seed: int
    ) -> None:
        self.seed = seed
        self._scale = RandomScale(preprocessing, settings.scale_range)
        crop = BalancedCrop(crop_size, settings.max_class_share, settings.crop_tries)
        steps: list[Any] = [self._scale, crop, A.HorizontalFlip(p=settings.flip)]
        if settings.photometric:
            steps.append(PhotometricDistortion())
        self._compose = A.Compose(steps, is_check_shapes=False)

    def scaled_size(self, size: tuple[int, int], epoch: int, index: int) -> tuple[int, int]:
        """Height and width in pixels that the scale of this epoch gives an image, before the crop.

        Args:
            size: height and width of the image in pixels.
            epoch: number of the permutation that the sample belongs to.
            index: of the image in the data set.
        """
        return self._scale.scaled(size, self._draws(epoch, index)[0])

    def __call__(self, image: np.ndarray, mask: np.ndarray, epoch: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The image ``(h, w, C)`` and mask ``(h, w)`` as this epoch shows them.

        Args:
            image: pixels ``(H, W, C)`` uint8; fewer than the mask's where it was decoded at a part of its size.
            mask: class indices ``(H, W)`` uint8 at the full size, from which the scale is counted.
            epoch: number of the permutation that the sample belongs to.
            index: of the image in the data set.
        """
        self._compose.set_random_state(*self._draws(epoch, index))
        result = self._compose(image=image, mask=mask)
        return result["image"].reshape(*result["mask"].shape, image.shape[2]), result["mask"]

    def _draws(self, epoch: int, index: int) -> tuple[np.random.Generator, random.Random]:
        generator = np.random.default_rng([self.seed, epoch, index])
        return generator, random.Random(int(generator.integers(2**62)))


class RandomScale(A.DualTransform):
    """Resizes by a random factor, keeping the aspect: images bilinear, masks to the nearest.

    Args:
        preprocessing: its ``resize`` times the factor gives the limits; without it, the image's own size.
        scale_range: smallest and largest factor.
    """

    def __init__(self, preprocessing: Preprocessing, scale_range: tuple[float, float]) -> None:
        super().__init__(p=1)
        self.preprocessing = preprocessing
        self.scale_range = scale_range

    def get_params_dependent_on_data(self, params: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Draws the factor and gives the size.

        Args:
            params: not used.
            data: its ``mask`` has the full size of the image.
        """
        return {"size": self.scaled(data["mask"].shape, self.random_generator)}

    def scaled(self, size: tuple[int, int], generator: np.random.Generator) -> tuple[int, int]:
        """Height and width in pixels after scaling by a factor, the next draw of ``generator``.

        Args:
            size: height and width in pixels.
            generator: of the factor.
        """
        factor = float(generator.uniform(*self.scale_range))
        if self.preprocessing.resize is None:
            return max(1, int(size[0] * factor + 0.5)), max(1, int(size[1] * factor + 0.5))
        limits = [max(1, int(side * factor)) for side in self.preprocessing.resize]
        return replace(self.preprocessing, resize=(limits[0], limits[1])).input_size(size)

    def apply(self, img: np.ndarray, size: tuple[int, int], **params: Any) -> np.ndarray:
        """The resized image.

        Args:
            img: pixels ``(H, W, C)`` uint8.
            size: height and width in pixels.
            **params: not used.
        """
        return cv2.resize(img, size[::-1], interpolation=cv2.INTER_LINEAR)

    def apply_to_mask(self, mask: np.ndarray, size: tuple[int, int], **params: Any) -> np.ndarray:
        """The resized mask, on the same pixel centres as the image.

        Args:
            mask: class indices ``(H, W)`` uint8.
            size: height and width in pixels.
            **params: not used.
        """
        return cv2.resize(mask, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)


class BalancedCrop(A.DualTransform):
    """Cuts a random rectangle in which no class holds too large a share of the labelled pixels.

    Args:
        size: height and width of the crop in pixels, less where the image is smaller.
        max_class_share: largest fraction of the labelled pixels for one class.
        tries: how many rectangles to draw; the last is taken whatever it holds.
    """

    def __init__(self, size: tuple[int, int], max_class_share: float, tries: int) -> None:
        super().__init__(p=1)
        self.size = size
        self.max_class_share = max_class_share
        self.tries = tries

    def get_params_dependent_on_data(self, params: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Draws the rectangle.

        Args:
            params: not used.
            data: its ``mask`` decides whether a rectangle will do.
        """
        mask = data["mask"]
        box = (slice(None), slice(None))
        for _ in range(self.tries):
            box = (self._span(mask.shape[0], self.size[0]), self._span(mask.shape[1], self.size[1]))
            if self.max_class_share >= 1 or self._is_balanced(mask[box]):
                break
        return {"box": box}

    def apply(self, img: np.ndarray, box: tuple[slice, slice], **params: Any) -> np.ndarray:
        """The cut image; masks are cut alike.

        Args:
            img: pixels ``(H, W, C)`` or class indices ``(H, W)``.
            box: rows and columns.
            **params: not used.
        """
        return img[box]

    def _span(self, have: int, want: int) -> slice:
        start = int(self.random_generator.integers(max(have - want, 0) + 1))
        return slice(start, start + want)

    def _is_balanced(self, mask: np.ndarray) -> bool:
        found = counts(mask)[:IGNORE_INDEX]
        return found.sum() > 0 and found.max() <= self.max_class_share * found.sum()


class PhotometricDistortion(A.ImageOnlyTransform):
    """Varies brightness, contrast, saturation and hue, each with probability one half, on uint8.

    The order is brightness, contrast, saturation, hue; a coin moves contrast to the end. After each step values are cut
    off at 0 and 255 and rounded down. Grey images get brightness and contrast only.

    Args:
        brightness: largest number added to or taken from every pixel, in 0..255.
        contrast: smallest and largest factor on every pixel.
        saturation: smallest and largest factor on the saturation.
        hue: largest shift of the hue, of 180 for the whole circle.

    Source: mmsegmentation's ``PhotoMetricDistortion``, whose hue stops one short of ``hue`` at the upper end.
    """

    def __init__(
        self,
        brightness: float = 32,
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: int = 18,
    ) -> None:
        super().__init__(p=1)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue

    def get_params(self) -> dict[str, Any]:
        """Draws the four changes, each None where its coin says so, and the order."""
        rng = self.random_generator
        coins = rng.random(5) < 0.5
        draws = {
            "brightness": float(rng.uniform(-self.brightness, self.brightness)),
            "contrast": float(rng.uniform(*self.contrast)),
            "saturation": float(rng.uniform(*self.saturation)),
            "hue": int(rng.integers(-self.hue, self.hue + 1)),
        }
        drawn = {key: value if coin else None for (key, value), coin in zip(draws.items(), coins[:4], strict=True)}
        return drawn | {"contrast_last": bool(coins[4])}

    def apply(
        self,
        img: np.ndarray,
        brightness: float | None,
        contrast: float | None,
        saturation: float | None,
        hue: int | None,
        contrast_last: bool,
        **params: Any,
    ) -> np.ndarray:
        """The changed image.

        Args:
            img: pixels ``(H, W, C)`` uint8.
            brightness: what to add.
            contrast: factor.
            saturation: factor.
            hue: shift, of 180.
            contrast_last: whether contrast comes after saturation and hue.
            **params: not used.
        """
        before = [] if brightness is None else [linear_table(offset=brightness)]
        after: list[np.ndarray] = []
        if contrast is not None:
            (after if contrast_last else before).append(linear_table(factor=contrast))
        img = looked_up(img, before)
        if img.ndim == 3 and img.shape[2] == 3:
            if saturation is not None:
                img = looked_up_in_hsv(img, 1, linear_table(factor=saturation))
            if hue is not None:
                img = looked_up_in_hsv(img, 0, ((np.arange(256) + hue) % 180).astype(np.uint8))
        return looked_up(img, after)
