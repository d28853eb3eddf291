"""Whole images, for scoring and for prediction."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

from src.data.batch import IGNORE_INDEX, Item, UnreadableImage
from src.data.pairs import Pair
from src.data.samplers import EvaluationKey
from src.data.source import Source
from src.preprocessing import Preprocessing

EvaluationItem = Item | UnreadableImage


class EvaluationDataset(Dataset[EvaluationItem]):
    """Whole images, with masks at the original size where ``with_masks`` is given.

    Where a key says that an image does not count, all its labels are 255. Without masks, an image that its reader
    refuses is an item that says why; with masks it is an error.

    Args:
        pairs: image files, and mask files for ``with_masks``.
        sources: how the files are read; each pair says which of them is its own.
        preprocessing: resizing and normalisation.
        with_masks: whether items hold masks.
    """

    def __init__(
        self, pairs: Sequence[Pair], sources: Sequence[Source], preprocessing: Preprocessing, with_masks: bool
    ) -> None:
        self.pairs = pairs
        self.sources = sources
        self.preprocessing = preprocessing
        self.with_masks = with_masks

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: EvaluationKey | int) -> EvaluationItem:
        index, counts = key if isinstance(key, tuple) else (key, True)
        pair = self.pairs[index]
        source = self.sources[pair.source]
        with source.naming(pair):
            try:
                image = source.read_image(pair.image, self.preprocessing.channels)
            except (OSError, ValueError) as error:
                if self.with_masks:
                    raise
                return UnreadableImage(pair.name, str(error))
            size = (image.shape[0], image.shape[1])
            pixels = self.preprocessing(image)
            item = Item(image=pixels, size=(pixels.shape[1], pixels.shape[2]), original_size=size, name=pair.name)
            if self.with_masks:
                labels = torch.from_numpy(source.labels(pair, size).astype(np.int64))
                item["mask"] = labels if counts else torch.full_like(labels, IGNORE_INDEX)
            return item
