"""From a checkpoint to the labels of a picture, in two lines."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from src.classes import ClassList
from src.image_io import picture_pixels, read_image
from src.inference.checkpoint import read_checkpoint
from src.inference.label_map import label_map
from src.inference.sliding_window import SlidingWindow
from src.models import Segmenter
from src.models.execution import Execution
from src.preprocessing import Preprocessing

Picture = np.ndarray | Tensor | Image.Image | str | os.PathLike[str]
"""Pixels ``(H, W, C)`` uint8, RGB where there are three channels; ``(H, W)`` is grey. Or a picture of Pillow's. Or the
path of an image file."""


class Predictor:
    """Labels pictures: the checkpoint's preprocessing, its model, and a label map at the picture's own size.

    Args:
        model: the segmenter, which is put into eval mode.
        preprocessing: how pictures become inputs.
        classes: names and colours of the labels.
        device: where to compute, for example ``cpu`` or ``cuda``.
        max_image_pixels: most pixels that an image file may have; None means what Pillow allows, twice
            ``PIL.Image.MAX_IMAGE_PIXELS``.
        execution: how the model computes; None for the default.
        windows: score inputs in windows, for images whose features do not fit into memory; None: whole.

    Raises:
        ValueError: ``execution`` or ``windows`` is something else, or asks for a device that is not there.

    Example:
        >>> predictor = load_predictor("best.ckpt")  # doctest: +SKIP
        >>> labels = predictor(Image.open("photo.jpg"))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Segmenter,
        preprocessing: Preprocessing,
        classes: ClassList,
        device: str | torch.device = "cpu",
        max_image_pixels: int | None = None,
        execution: Execution | None = None,
        windows: SlidingWindow | None = None,
    ) -> None:
        if not isinstance(execution, Execution | None):
            raise ValueError(
                f'execution must be an Execution, got {execution!r}; give Execution(numerics="fast") for example.'
            )
        if not isinstance(windows, SlidingWindow | None):
            raise ValueError(
                f"windows must be a SlidingWindow, got {windows!r}; give SlidingWindow((512, 512)) for example."
            )
        self.model = (execution or Execution()).prepare(model.eval().to(device))
        self.preprocessing = preprocessing
        self.classes = classes
        self.device = torch.device(device)
        self.max_image_pixels = max_image_pixels
        self.windows = windows

    @overload
    def __call__(self, image: Picture) -> Tensor: ...  # type: ignore[overload-overlap]  # one, though iterable

    @overload
    def __call__(self, image: Iterable[Picture]) -> list[Tensor]: ...

    def __call__(self, image: Picture | Iterable[Picture]) -> Tensor | list[Tensor]:
        """Label one picture or several, one after the other. Threads may share a predictor.

        Args:
            image: uint8 pixels ``(H, W, C)`` or ``(H, W)`` as an array or a tensor on any device, a Pillow picture, the
                path of an image file, or several of these. Grey becomes colour where the model wants colour. Pictures
                and files are turned as their EXIF tag says and lose their transparency, as ``src.predict`` reads them.

        Returns:
            Labels ``(H, W)``, int64, on the CPU, at the picture's own size; a list where several were given.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: a picture has another shape or type, or a file cannot be read.
        """
        if isinstance(image, np.ndarray | Tensor | Image.Image | str | os.PathLike):
            return self._labels(image)
        if isinstance(image, bytes | Mapping) or not isinstance(image, Iterable):
            raise ValueError(
                f"image must be an array, a tensor, a picture of Pillow's, a path or a list of these, got "
                f"{type(image).__name__}; convert it."
            )
        return [self(picture) for picture in image]

    @torch.inference_mode()
    def _labels(self, picture: Picture) -> Tensor:
        pixels = self._pixels(picture)
        inputs = self.preprocessing(pixels).to(self.device)
        images = inputs[None]
        logits = self.model(images).logits if self.windows is None else self.windows.logits(self.model, images)
        return label_map(logits, (inputs.shape[1], inputs.shape[2]), (pixels.shape[0], pixels.shape[1]))[0].cpu()

    def _pixels(self, picture: Picture) -> np.ndarray | Tensor:
        channels = self.preprocessing.channels
        if isinstance(picture, str | os.PathLike):
            picture = read_image(Path(picture), channels, self.max_image_pixels)
        elif isinstance(picture, Image.Image):
            picture = picture_pixels(picture, channels)
        shape, kind = tuple(picture.shape), str(picture.dtype).removeprefix("torch.")
        if kind != "uint8" or len(shape) not in (2, 3):
            raise ValueError(
                f"image must be (H, W, {channels}) of uint8, got {shape} of {kind}; values of 0..1 want "
                f"`(255 * image).round()` as uint8, several images want a list."
            )
        if channels in (1, 3) and len(shape) == 3 and shape[2] not in (1, 3, 4) and shape[0] in (1, 3, 4):
            raise ValueError(f"image must be (H, W, {channels}), got {shape}; move the channels to the end.")
        if len(shape) == 2:
            picture = picture[:, :, None]
        if picture.shape[-1] == 1 and channels == 3:
            picture = picture.repeat(1, 1, 3) if isinstance(picture, Tensor) else picture.repeat(3, axis=2)
        return picture


def load_predictor(
    path: str | Path,
    device: str | torch.device = "cpu",
    max_image_pixels: int | None = None,
    execution: Execution | None = None,
    windows: SlidingWindow | None = None,
) -> Predictor:
    """The predictor of a checkpoint, which needs neither a config nor the training data; no code in the file is run.

    Args:
        path: a ``.ckpt`` file that training wrote, or a folder of ``Segmenter.save_pretrained``.
        device: where to compute, for example ``cpu`` or ``cuda``.
        max_image_pixels: most pixels that an image file may have, see ``Predictor``.
        execution: how the model computes, for example ``Execution(numerics="fast")``; None for the default.
        windows: score images in windows, see ``SlidingWindow``; None: whole.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: there is no such device, or the file is cut, damaged, of another program or of a newer release.
        ImportError: the model has a part from a package that is not installed.
    """
    _check_device(device)
    contents = read_checkpoint(path)
    model = contents.build()
    return Predictor(model, contents.preprocessing, contents.classes, device, max_image_pixels, execution, windows)


def _check_device(device: str | torch.device) -> None:
    try:
        usable = torch.empty(0, device=device).device.type != "meta"
        reason = "it holds no values"
    except (RuntimeError, AssertionError, TypeError) as error:
        usable, reason = False, (str(error).splitlines() or [type(error).__name__])[0]
    if not usable:
        raise ValueError(f"device must be one of this machine, got {device} ({reason}); use `cpu`.")
