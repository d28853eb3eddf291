"""Images and masks as items: varied crops for training, whole images for evaluation and prediction."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from src.data.batch import IGNORE_INDEX, Item, padded
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.samplers import TrainingKey
from src.data.transforms import TrainingTransform
from src.preprocessing import Preprocessing

ReadImage = Callable[[Path, int], np.ndarray]
"""``read(path, channels)`` gives ``(H, W, C)`` uint8."""

ReadMask = Callable[[Path], np.ndarray]
"""``read(path)`` gives the stored values ``(H, W)`` of any integer type."""


class TrainingDataset(Dataset[Item]):
    """Varied crops of one size with their masks, read by (epoch, index).

    Args:
        pairs: image and mask files.
        encoder: turns stored values into class indices.
        preprocessing: normalisation and number of channels.
        transform: the augmentation.
        crop_size: height and width of each item in pixels; what an image does not fill is 0, and 255 in the mask.
        readers: how to read an image file and a mask file.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        encoder: LabelEncoder,
        preprocessing: Preprocessing,
        transform: TrainingTransform,
        crop_size: tuple[int, int],
        readers: tuple[ReadImage, ReadMask],
    ) -> None:
        self.pairs = pairs
        self.encoder = encoder
        self.preprocessing = preprocessing
        self.transform = transform
        self.crop_size = crop_size
        self.readers = readers

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: TrainingKey | int) -> Item:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        pair = self.pairs[index]
        image = self.readers[0](pair.image, self.preprocessing.channels)
        pixels, mask = self.transform(image, _read_labels(pair, image, self.encoder, self.readers[1]), epoch, index)
        return Item(
            image=padded(self.preprocessing.normalise(pixels), self.crop_size),
            mask=padded(torch.from_numpy(mask.astype(np.int64)), self.crop_size, value=IGNORE_INDEX),
            size=self.crop_size,
            original_size=(image.shape[0], image.shape[1]),
            name=pair.name,
        )


class EvaluationDataset(Dataset[Item]):
    """Whole images, with masks at the original size where ``encoder`` is given.

    Args:
        pairs: image files, and mask files where ``encoder`` is given.
        preprocessing: resizing and normalisation.
        readers: how to read an image file and a mask file.
        encoder: turns stored values into class indices; None gives images only.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        preprocessing: Preprocessing,
        readers: tuple[ReadImage, ReadMask],
        encoder: LabelEncoder | None = None,
    ) -> None:
        self.pairs = pairs
        self.preprocessing = preprocessing
        self.readers = readers
        self.encoder = encoder

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Item:
        pair = self.pairs[index]
        image = self.readers[0](pair.image, self.preprocessing.channels)
        pixels = self.preprocessing(image)
        item = Item(
            image=pixels,
            size=(pixels.shape[1], pixels.shape[2]),
            original_size=(image.shape[0], image.shape[1]),
            name=pair.name,
        )
        if self.encoder is not None:
            labels = _read_labels(pair, image, self.encoder, self.readers[1])
            item["mask"] = torch.from_numpy(labels.astype(np.int64))
        return item


def _read_labels(pair: Pair, image: np.ndarray, encoder: LabelEncoder, read_mask: ReadMask) -> np.ndarray:
    if pair.mask is None:
        raise ValueError(f"{pair.image} must have a mask for training and evaluation, got none; use predict instead.")
    stored = read_mask(pair.mask)
    if stored.shape != image.shape[:2]:
        raise ValueError(
            f"mask must have the size of its image, got {pair.mask} with {stored.shape[0]}x{stored.shape[1]} and "
            f"{pair.image} with {image.shape[0]}x{image.shape[1]} (height x width); export one of them again."
        )
    return encoder(stored, pair.mask)
