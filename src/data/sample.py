"""A small data set that needs no download: pictures drawn by code, in the layout of ADE20K."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from src.data.ade20k import split_pairs
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair
from src.data.sample_pictures import CLASSES, draw_picture

DEFAULT_ROOT = Path("runs", "sample-data-1")
"""Where the pictures are kept; the number rises when they change."""

_PICTURES = {"training": 48, "validation": 12}
_SEED = 2021


class Sample(SegmentationDataModule):
    """Sixty pictures of made-up streets, 48 to train and 12 to validate, made where they are absent.

    Eight classes share their colours and differ in texture, shape and place; some things are a few pixels thin. Sizes
    lie between 91 and 170 pixels. Value 0 of the masks is ignored. Prediction takes the validation images.

    Args:
        root: folder of the pictures; None means ``runs/sample-data-1`` in the working directory.
        crop_size: height and width of training crops in pixels, or one number for both.
        **common: see ``SegmentationDataModule``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, root: str | None = None, crop_size: int | tuple[int, int] = 96, **common: Any) -> None:
        super().__init__(
            classes=CLASSES, ignored_ids=[0, 255], reduce_zero_label=False, mapping=None, crop_size=crop_size, **common
        )
        self.root = DEFAULT_ROOT if root is None else Path(root)

    def prepare_data(self) -> None:
        """Makes the pictures where they are absent."""
        if not self.root.is_dir() or not any(self.root.iterdir()):
            make_pictures(self.root)

    def pairs(self, split: Split) -> Sequence[Pair]:
        """Images and masks of a split.

        Args:
            split: ``train`` reads the folder ``training``, the others ``validation``.

        Raises:
            FileNotFoundError: the folder exists and holds something else.
        """
        self.prepare_data()
        return split_pairs(self.root, split, "give another folder, or an empty one to have the pictures made there")


def make_pictures(root: Path) -> None:
    """Draws all pictures beside ``root`` and moves them there at once, so that nobody meets a part of them.

    Args:
        root: folder to make, absent or empty.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as folder:
        made = Path(folder, root.name)
        index = 0
        for part, count in _PICTURES.items():
            for kind in ("images", "annotations"):
                Path(made, kind, part).mkdir(parents=True)
            for number in range(count):
                pixels, mask = draw_picture(_SEED, index)
                name = f"sample_{part}_{number:03d}.png"
                Image.fromarray(pixels).save(made / "images" / part / name)
                Image.fromarray(mask).save(made / "annotations" / part / name)
                index += 1
        try:
            made.rename(root)
        except OSError:
            if not (root / "images").is_dir():  # another process was first
                raise
