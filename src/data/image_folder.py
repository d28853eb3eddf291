"""Images without masks, for prediction."""

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from src.classes import ClassList
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair, find_images, in_system_folder, readable
from src.image_io import SUFFIXES

_KINDS = f"({', '.join(SUFFIXES)})"
_WANTED = f"data.images must be a folder of images {_KINDS}, an image, a pattern or a text file that lists images"


class ImageFolder(SegmentationDataModule):
    """Images to predict; the classes are the checkpoint's.

    An image is called by its path inside the folder that was given, or, where several things were, inside the deepest
    folder around all of them, so that equal names in two folders stay apart. Around a pattern stands what comes before
    its first wildcard. An image that is named twice comes once. Hidden files, and folders that systems keep
    (``__MACOSX``, ``@eaDir``, recycle bins), are passed over unless they are named.

    Args:
        images: one or several of: a folder, with everything inside it; an image; a pattern such as ``photos/*.jpg`` or
            ``photos/**``, for the images that it matches; a ``.txt`` file with one image a line, each relative to the
            text file's folder or else to the working directory, where lines that begin with ``#`` are passed over.
            What exists under the name of a pattern is not taken for a pattern.
        **common: see ``SegmentationDataModule``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, images: str | list[str], **common: Any) -> None:
        super().__init__(classes=ClassList((), ()), ignored_ids=None, reduce_zero_label=False, **common)
        self.images = images

    def pairs(self, split: Split) -> Sequence[Pair]:
        """The images without masks, in the order of their names.

        Args:
            split: ``predict``.

        Raises:
            FileNotFoundError: something does not exist or holds no image.
            ValueError: another split is asked for, a file is not an image, or a list cannot be read.
        """
        if split != "predict":
            self._labelled()
        files: dict[str, Path] = {}
        folders = []
        with readable("data.images"):
            for folder, path in (found for given in self._given() for found in _images_of(given)):
                folders.append(_absolute(folder))
                files.setdefault(_absolute(path), path)
        around = os.path.commonpath(folders)
        pairs = [Pair(Path(os.path.relpath(place, around)).as_posix(), path) for place, path in files.items()]
        return sorted(pairs, key=lambda pair: pair.name)

    def searched_folders(self) -> set[Path]:
        """Folders in which images are looked for at any depth; masks written there could be taken for images."""
        given = self._given()
        patterns = {_before_wildcards(one) for one in given if "**" in one and not Path(one).exists()}
        return {Path(one) for one in given if Path(one).is_dir()} | patterns

    def _given(self) -> list[str]:
        given = [self.images] if isinstance(self.images, str | Path) else list(self.images)
        if not given or "" in given:
            raise ValueError(f"{_WANTED}, got {self.images!r}; name at least one, and no empty name.")
        return [str(path) for path in given]


def _images_of(given: str) -> Iterator[tuple[Path, Path]]:
    """Each image of a folder, file, pattern or list, behind the folder that its name begins in."""
    path = Path(given)
    if path.is_dir():
        yield from ((path, pair.image) for pair in find_images(path, "data.images"))
    elif path.suffix.lower() == ".txt" and path.exists():
        yield from ((image.parent, image) for image in _listed_images(path))
    elif path.exists():
        yield path.parent, _image(path, "")
    elif glob.has_magic(given):
        matches = [Path(match) for match in sorted(glob.glob(given, recursive=True))]  # noqa: PTH207 (pathlib's matches hidden files)
        root = _before_wildcards(given)
        matches = [match for match in matches if not in_system_folder(match.relative_to(root))]
        images = [match for match in matches if match.suffix.lower() in SUFFIXES and match.is_file()]
        if not images:
            remedy = "; folders are not looked into, so end the pattern with /**" if matches else ""
            raise FileNotFoundError(f"{_WANTED}, got the pattern {given}, which matches no image{remedy}.")
        yield from ((root, image) for image in images)
    else:
        raise FileNotFoundError(f"{_WANTED}, got {path.absolute()}, which does not exist.")


def _listed_images(path: Path) -> Iterator[Path]:
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{_WANTED}, got {path}, which cannot be read as UTF-8 ({error}); write it again.") from error
    entries = {number: line.strip() for number, line in enumerate(lines, 1) if not line.startswith("#")}
    for number, entry in entries.items():
        if entry:
            beside = path.parent / entry
            yield _image(beside if beside.exists() else Path(entry), f" in line {number} of {path}")
    if not any(entries.values()):
        raise FileNotFoundError(f"{_WANTED}, got {path}, which lists no image; write one path a line.")


def _image(path: Path, where: str) -> Path:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"data.images must name images {_KINDS} that exist, got {path}{where}, which {what}.")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"data.images must name images {_KINDS}, got {path}{where}; leave it out.")
    return path


def _absolute(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (links keep their own names)


def _before_wildcards(pattern: str) -> Path:
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:fixed])
