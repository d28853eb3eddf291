"""ADE20K's scene parsing benchmark: 150 classes, 20,210 images for training, 2,000 for validation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from src.classes import ClassList
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair, match_pairs

ARCHIVE = "http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip"


class ADE20K(SegmentationDataModule):
    """ADE20K in the layout of its archive: ``{images,annotations}/{training,validation}``.

    Values 1..150 of the annotations are the classes; 0, everything else, is ignored. Prediction takes the validation
    images.

    Args:
        root: the unpacked folder ``ADEChallengeData2016``.
        **common: see ``SegmentationDataModule``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, root: str, **common: Any) -> None:
        super().__init__(classes=ClassList.ade20k(), ignored_ids=[0, 255], reduce_zero_label=False, **common)
        self.root = Path(root)

    def pairs(self, split: Split) -> Sequence[Pair]:
        """Images and annotations of a split.

        Args:
            split: ``train`` reads the folder ``training``, the others ``validation``.

        Raises:
            FileNotFoundError: a folder of the layout is missing or empty.
            ValueError: images and annotations do not belong together.
        """
        return split_pairs(self.root, split, f"download {ARCHIVE} and unpack it, then give its folder as data.root")


def split_pairs(root: Path, split: Split, remedy: str) -> list[Pair]:
    """Images and annotations of a split in the layout of ADE20K.

    Args:
        root: folder that holds ``images`` and ``annotations``.
        split: ``train`` reads the folder ``training``, the others ``validation``.
        remedy: what to do where a folder is missing, for the error.

    Raises:
        FileNotFoundError: a folder of the layout is missing or empty.
        ValueError: images and annotations do not belong together.
    """
    folders = [root / kind / ("training" if split == "train" else "validation") for kind in ("images", "annotations")]
    if missing := [folder.relative_to(root).as_posix() for folder in folders if not folder.is_dir()]:
        raise FileNotFoundError(
            f"data.root must hold {' and '.join(missing)}, got {root.absolute()}, which "
            f"{'lacks them' if root.is_dir() else 'does not exist'}; {remedy}."
        )
    return match_pairs(folders[0], folders[1], keys=("data.root", "data.root"))
