"""Your own images and masks: two folders and a file with the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from src.classes import ClassList
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair, match_pairs


class MaskFolder(SegmentationDataModule):
    """A folder of images and a folder of masks with the same names, and the classes in a text file.

    Prediction takes the validation images.

    Args:
        images: folder of the images, with everything inside it.
        masks: folder of the masks: grey or indexed files with one class id a pixel.
        classes: text file with one class a line: ``name`` or ``id name``, optionally with `` r,g,b`` at its end, or
            ``id2label.json``. The id is the value in the masks; without ids the classes are 0, 1, 2 and so on.
        val_images: folder of the validation images; None takes a part of ``images``.
        val_masks: folder of the validation masks; given with ``val_images``.
        val_fraction: part of the images, above 0 and below 1, that validates where ``val_images`` is None; which ones
            follows from ``seed``.
        ignored_ids: values in the masks without a class, left out of training and scores; None means 255, unless that
            is the id of a class. A class whose id is among them leaves the class list.
        reduce_zero_label: whether the masks hold every id plus one, and 0 where there is no label.
        mask_suffix: what the names of masks have at their end and those of images lack, for example ``_mask``.
        **common: see ``SegmentationDataModule``.

    Raises:
        FileNotFoundError: there is no file of classes.
        ValueError: an argument is out of range, or the file of classes cannot be read.
    """

    def __init__(
        self,
        images: str,
        masks: str,
        classes: str,
        val_images: str | None = None,
        val_masks: str | None = None,
        val_fraction: float = 0.2,
        ignored_ids: list[int] | None = None,
        reduce_zero_label: bool = False,
        mask_suffix: str = "",
        **common: Any,
    ) -> None:
        super().__init__(
            classes=ClassList.from_file(classes), ignored_ids=ignored_ids, reduce_zero_label=reduce_zero_label, **common
        )
        if (val_images is None) != (val_masks is None):
            raise ValueError(
                f"data.val_images and data.val_masks must be given together, got {val_images} and {val_masks}; "
                f"give both or neither."
            )
        if not 0 < val_fraction < 1:
            raise ValueError(f"data.val_fraction must be above 0 and below 1, got {val_fraction}; for example 0.2.")
        self.images = images
        self.masks = masks
        self.val_images = val_images
        self.val_masks = val_masks
        self.val_fraction = val_fraction
        self.mask_suffix = mask_suffix

    def pairs(self, split: Split) -> Sequence[Pair]:
        """Images and masks of a split.

        Args:
            split: ``train``, or the others for the validation images.

        Raises:
            FileNotFoundError: a folder does not exist or holds no image.
            ValueError: images and masks do not belong together, or there are too few to share out.
        """
        if self.val_images is not None and self.val_masks is not None and split != "train":
            keys = ("data.val_images", "data.val_masks")
            return match_pairs(self.val_images, self.val_masks, self.mask_suffix, keys)
        pairs = match_pairs(self.images, self.masks, self.mask_suffix)
        if self.val_images is not None:
            return pairs
        if len(pairs) < 2:
            raise ValueError(
                f"data.images must hold at least 2 images to set some aside for validation, got {len(pairs)}; add "
                f"images, or give data.val_images and data.val_masks."
            )
        num_val = min(max(1, round(self.val_fraction * len(pairs))), len(pairs) - 1)
        chosen = set(np.random.default_rng(self.seed).permutation(len(pairs))[:num_val].tolist())
        return [pair for index, pair in enumerate(pairs) if (index in chosen) != (split == "train")]
