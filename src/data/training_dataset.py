"""Varied crops of images and their masks, for training."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from src.data.batch import IGNORE_INDEX, Item, padded
from src.data.pairs import Pair
from src.data.samplers import TrainingKey
from src.data.source import Source
from src.data.transforms import TrainingTransform
from src.preprocessing import Preprocessing


class TrainingDataset(Dataset[Item]):
    """Varied crops of one size with their masks, read by (epoch, index).

    Args:
        pairs: image and mask files.
        sources: how the files are read; each pair says which of them is its own.
        preprocessing: normalisation and number of channels.
        transform: the augmentation.
        crop_size: height and width of each item in pixels; what an image does not fill is 0, and 255 in the mask.
        draft: whether a JPEG of at least twice the needed size is decoded at a part of it.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        sources: Sequence[Source],
        preprocessing: Preprocessing,
        transform: TrainingTransform,
        crop_size: tuple[int, int],
        draft: bool = False,
    ) -> None:
        self.pairs = pairs
        self.sources = sources
        self.preprocessing = preprocessing
        self.transform = transform
        self.crop_size = crop_size
        self.draft = draft

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: TrainingKey | int) -> Item:
        epoch, index = key if isinstance(key, tuple) else (0, key)
        pair = self.pairs[index]
        source = self.sources[pair.source]
        with source.naming(pair):
            image, size = self._image(pair, source, epoch, index)
            pixels, mask = self.transform(image, source.labels(pair, size), epoch, index)
            normalised = self.preprocessing.normalise(pixels)
        return Item(
            image=padded(normalised, self.crop_size),
            mask=padded(torch.from_numpy(mask.astype(np.int64)), self.crop_size, value=IGNORE_INDEX),
            size=self.crop_size,
            original_size=size,
            name=pair.name,
        )

    def _image(self, pair: Pair, source: Source, epoch: int, index: int) -> tuple[np.ndarray, tuple[int, int]]:
        """The pixels, perhaps of a part of the full size, and the full height and width."""
        channels = self.preprocessing.channels
        if self.draft:
            return source.reduced_image(pair, channels, lambda full: self.transform.scaled_size(full, epoch, index))
        image = source.read_image(pair.image, channels)
        return image, (image.shape[0], image.shape[1])
