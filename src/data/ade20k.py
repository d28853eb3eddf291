"""ADE20K's scene parsing benchmark: 150 classes, 20,210 images for training, 2,000 for validation."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from src.classes import ClassList
from src.data.archive import UnfitArchiveError, unpack
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair, match_pairs, readable
from src.data.source import Source
from src.download import download, one_at_a_time

ARCHIVE = "http://data.csail.mit.edu/places/ADEchallenge/ADEChallengeData2016.zip"

_KINDS = ("images", "annotations")
_COUNTS = {"training": 20_210, "validation": 2_000}
_SAMPLE = 8


class ADE20K(SegmentationDataModule):
    """ADE20K in the layout of its archive: ``{images,annotations}/{training,validation}``.

    Values 1..150 of the annotations are the classes; 0, everything else, is ignored. Prediction takes the validation
    images. Before training and scoring some files of each split are read; another number of images than the published
    one is a warning.

    Args:
        root: the unpacked folder ``ADEChallengeData2016``.
        download: whether to fetch and unpack the archive where ``root`` is absent or empty. It is kept beside ``root``
            as ``<root>.zip`` until it is unpacked or found to be unfit, and then removed; one that lay there before is
            used, and kept.
        url: address of the archive.
        **common: see ``SegmentationDataModule``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, root: str, download: bool = False, url: str = ARCHIVE, **common: Any) -> None:
        super().__init__(
            classes=ClassList.ade20k(), ignored_ids=[0, 255], reduce_zero_label=False, mapping=None, **common
        )
        self.root = Path(root)
        self.download = download
        self.url = url

    def prepare_data(self) -> None:
        """Fetches and unpacks the archive where ``download`` is set and ``root`` is absent or empty.

        Raises:
            ValueError: ``root`` holds something else, or the archive cannot be fetched or unpacked.
        """
        with readable("data.root"):
            if not self.download or _is_complete(self.root):
                return
        with one_at_a_time(self.root):
            if not _is_complete(self.root):
                _make(self.root, self.url)

    def pairs(self, split: Split) -> Sequence[Pair]:
        """Images and annotations of a split.

        Args:
            split: ``train`` reads the folder ``training``, the others ``validation``.

        Raises:
            FileNotFoundError: a folder of the layout is missing or empty.
            ValueError: images and annotations do not belong together, or one of those that are tried cannot be read.
        """
        remedy = f"give data.download true, or download {self.url} and unpack it, then give its folder as data.root"
        pairs = split_pairs(self.root, split, remedy)
        if split != "predict" and self.check != "off":
            part = "training" if split == "train" else "validation"
            if len(pairs) != _COUNTS[part]:
                warnings.warn(
                    f"ADE20K has {_COUNTS[part]:,} {part} images, got {len(pairs):,} in {self.root.absolute()}; unpack "
                    f"the archive again, unless you mean to use a part of it.",
                    stacklevel=2,
                )
            _try_some(pairs, self.sources()[0])
        return pairs


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
    folders = [root / kind / ("training" if split == "train" else "validation") for kind in _KINDS]
    with readable("data.root"):
        missing = [folder.relative_to(root).as_posix() for folder in folders if not folder.is_dir()]
    if missing:
        raise FileNotFoundError(
            f"data.root must hold {' and '.join(missing)}, got {root.absolute()}, which "
            f"{'lacks them' if root.is_dir() else 'does not exist'}; {remedy}."
        )
    return match_pairs(folders[0], folders[1], keys=("data.root", "data.root"))


def _is_complete(root: Path) -> bool:
    folders = [root / kind / part for kind in _KINDS for part in _COUNTS]
    return all(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def _make(root: Path, url: str) -> None:
    if root.exists() and not (root.is_dir() and not any(root.iterdir())):
        raise ValueError(
            f"data.root must be ADE20K as unpacked, or absent or empty for data.download, got {root.absolute()}, which "
            f"holds something else or a part of it; move it away, or give another data.root."
        )
    archive = root.absolute().with_name(f"{root.absolute().name}.zip")
    found = archive.exists()
    download(url, archive)
    print(f"unpacking {archive} to {root}", file=sys.stderr)
    try:
        unpack(archive, root)
    except UnfitArchiveError as error:
        if found:
            raise
        archive.unlink()
        raise ValueError(
            f"{url} must be ADE20K's archive ({error}); the file was removed, so that the same command fetches it "
            f"again; check data.url."
        ) from error
    if not found:
        archive.unlink()


def _try_some(pairs: Sequence[Pair], source: Source) -> None:
    """Reads files spread evenly over the set, as training would."""
    for pair in pairs[:: -(-len(pairs) // _SAMPLE)]:
        image = source.read_image(pair.image, 3)
        source.labels(pair, (image.shape[0], image.shape[1]))
