"""Images without masks, for prediction."""

from collections.abc import Sequence
from typing import Any

from src.classes import ClassList
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair, find_images


class ImageFolder(SegmentationDataModule):
    """A folder of images to predict; the classes are the checkpoint's.

    Args:
        images: folder of the images, with everything inside it.
        **common: see ``SegmentationDataModule``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, images: str, **common: Any) -> None:
        super().__init__(classes=ClassList((), ()), ignored_ids=None, reduce_zero_label=False, **common)
        self.images = images

    def pairs(self, split: Split) -> Sequence[Pair]:
        """The images, without masks.

        Args:
            split: ``predict``.

        Raises:
            FileNotFoundError: the folder does not exist or holds no image.
            ValueError: another split is asked for.
        """
        if split != "predict":
            self._labelled()
        return find_images(self.images, "data.images")
