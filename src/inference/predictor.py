"""From a checkpoint to the labels of a picture, in two lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from src.classes import ClassList
from src.inference.checkpoint import read_checkpoint
from src.inference.label_map import label_map
from src.models import Segmenter
from src.preprocessing import Preprocessing

Picture = np.ndarray | Tensor | Image.Image
"""Pixels ``(H, W, C)`` uint8, RGB where there are three channels; ``(H, W)`` is grey. Or a picture of Pillow's."""


class Predictor:
    """Labels pictures: the checkpoint's preprocessing, its model, and a label map at the picture's own size.

    Args:
        model: the segmenter, which is put into eval mode.
        preprocessing: how pictures become inputs.
        classes: names and colours of the labels.
        device: where to compute, for example ``cpu`` or ``cuda``.

    Example:
        >>> predictor = load_predictor("best.ckpt")  # doctest: +SKIP
        >>> labels = predictor(Image.open("photo.jpg"))  # doctest: +SKIP
    """

    def __init__(
        self, model: Segmenter, preprocessing: Preprocessing, classes: ClassList, device: str | torch.device = "cpu"
    ) -> None:
        self.model = model.eval().to(device)
        self.preprocessing = preprocessing
        self.classes = classes
        self.device = torch.device(device)

    @overload
    def __call__(self, image: Picture) -> Tensor: ...

    @overload
    def __call__(self, image: Sequence[Picture]) -> list[Tensor]: ...

    def __call__(self, image: Picture | Sequence[Picture]) -> Tensor | list[Tensor]:
        """Label one picture or a list of them, one after the other.

        Args:
            image: uint8 pixels ``(H, W, C)`` or ``(H, W)`` as an array or a tensor, a Pillow picture (which is turned
                as its EXIF tag says), or a list of these. Grey becomes colour where the model wants colour.

        Returns:
            Labels ``(H, W)``, int64, on the CPU, at the picture's own size; a list for a list.

        Raises:
            ValueError: a picture has another shape or type.
        """
        if isinstance(image, np.ndarray | Tensor | Image.Image):
            return self._labels(image)
        return [self._labels(picture) for picture in image]

    @torch.inference_mode()
    def _labels(self, picture: Picture) -> Tensor:
        pixels = self._pixels(picture)
        inputs = self.preprocessing(pixels).to(self.device)
        logits = self.model(inputs[None]).logits
        return label_map(logits, (inputs.shape[1], inputs.shape[2]), (pixels.shape[0], pixels.shape[1]))[0].cpu()

    def _pixels(self, picture: Picture) -> np.ndarray | Tensor:
        channels = self.preprocessing.channels
        if isinstance(picture, Image.Image):
            turned = ImageOps.exif_transpose(picture)
            picture = np.asarray(turned.convert({1: "L", 3: "RGB"}[channels]) if channels in (1, 3) else turned)
        if picture.ndim == 2:
            picture = picture[:, :, None]
        if picture.shape[-1] == 1 and channels == 3:
            picture = picture.repeat(1, 1, 3) if isinstance(picture, Tensor) else picture.repeat(3, axis=2)
        return picture


def load_predictor(path: str | Path, device: str | torch.device = "cpu") -> Predictor:
    """The predictor of a checkpoint, which needs neither a config nor the training data; no code in the file is run.

    Args:
        path: a ``.ckpt`` file that training wrote.
        device: where to compute, for example ``cpu`` or ``cuda``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is cut, of another program or of a newer release.
        ImportError: the model has a part from a package that is not installed.
    """
    contents = read_checkpoint(path)
    return Predictor(contents.build(), contents.preprocessing, contents.classes, device)
