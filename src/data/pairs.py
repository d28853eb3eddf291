"""Which mask belongs to which image: by the path inside the folder without suffix, never by the order of listing.

Names are compared in one normal form of Unicode: a Mac may store the same name in other bytes than Linux.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from src.image_io import SUFFIXES
from src.wording import listed

_SYSTEM_FOLDERS = ("__macosx", "@eadir", "#recycle", "$recycle.bin", "system volume information")
"""What systems keep beside the files of a user, in small letters."""


@dataclass(frozen=True)
class Pair:
    """An image file and, where there is one, its mask file.

    Args:
        name: path of the image inside its folder, with ``/`` and suffix.
        image: path of the image.
        mask: path of the mask; None in prediction.
        source: place of its data set among those of the run; 0 where there is one.
    """

    name: str
    image: Path
    mask: Path | None = None
    source: int = 0


def find_images(folder: str | Path, key: str) -> list[Pair]:
    """All images below a folder, sorted by name, without masks.

    Args:
        folder: where to look, with everything inside it.
        key: the setting that named the folder, for errors.

    Raises:
        FileNotFoundError: the folder does not exist or holds no image.
        ValueError: a folder cannot be read, or a link leads nowhere.
    """
    return [Pair(path.relative_to(folder).as_posix(), path) for path in _image_files(Path(folder), key)]


def match_pairs(
    images: str | Path,
    masks: str | Path,
    mask_suffix: str = "",
    keys: tuple[str, str] = ("data.images", "data.masks"),
) -> list[Pair]:
    """Images with their masks, sorted by name. ``a/b.jpg`` belongs to ``a/b.png``; other files are passed over.

    Args:
        images: folder of the images.
        masks: folder of the masks; it may be the same where ``mask_suffix`` tells them apart, or one may lie inside the
            other.
        mask_suffix: what the names of masks have at their end and those of images lack, for example ``_mask``.
        keys: the settings that named the two folders, for errors.

    Raises:
        FileNotFoundError: a folder does not exist or holds no image.
        ValueError: an image has no mask, a mask no image, two files differ in their suffix only, the folders cannot be
            told apart or read, or a link leads nowhere.
    """
    images, masks = Path(images), Path(masks)
    image_files = _image_files(images, keys[0])
    mask_files = _mask_files(images, masks, _normal(mask_suffix), keys)
    not_images = {masks.resolve() / path.relative_to(masks) for path in mask_files}
    root = images.resolve()
    image_files = [path for path in image_files if root / path.relative_to(images) not in not_images]
    masks_by_stem = _by_stem(mask_files, masks, keys[1], _normal(mask_suffix))
    images_by_stem = _by_stem(image_files, images, keys[0])
    without_mask = sorted(images_by_stem.keys() - masks_by_stem.keys())
    without_image = sorted(masks_by_stem.keys() - images_by_stem.keys())
    if without_mask or without_image:
        raise ValueError(
            f"{keys[0]} and {keys[1]} must hold the same names, got {len(without_mask)} images without a mask"
            f"{_in_brackets(without_mask)} and {len(without_image)} masks without an image"
            f"{_in_brackets(without_image)} in {images.absolute()} and {masks.absolute()}; add or remove files"
            + (
                "."
                if mask_suffix
                else ", or give data.mask_suffix where masks are called `NAME_mask.png` or `NAME.jpg.png`."
            )
        )
    return [
        Pair(path.relative_to(images).as_posix(), path, masks_by_stem[stem])
        for stem, path in sorted(images_by_stem.items())
    ]


def _mask_files(images: Path, masks: Path, suffix: str, keys: tuple[str, str]) -> list[Path]:
    files = _image_files(masks, keys[1])
    root, others = masks.resolve(), images.resolve()
    if root in others.parents:
        files = [path for path in files if others not in (root / path.relative_to(masks)).parents]
        if not files:
            raise FileNotFoundError(
                f"{keys[1]} must hold masks, got {masks.absolute()}, which holds the images of {keys[0]} alone; give "
                f"the folder of the masks."
            )
    if not suffix and others == root:
        raise ValueError(
            f"{keys[0]} and {keys[1]} must be two folders, got {masks.absolute()} for both; give masks a folder of "
            f"their own, or data.mask_suffix where they are called `NAME_mask.png`."
        )
    found = [path for path in files if _normal(path.stem).endswith(suffix)]
    if not found:
        raise ValueError(
            f"data.mask_suffix must end the names of masks, got {suffix!r}, which ends none of the {len(files)} in "
            f"{masks.absolute()}, for example {files[0].name}; leave out what follows the last dot."
        )
    return found


@contextmanager
def readable(key: str) -> Iterator[None]:
    """Says in plain words which path cannot be looked at.

    Args:
        key: the setting that named the path.

    Raises:
        ValueError: the system refuses to look at a path: it is too long, or its permissions forbid it.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(
            f"{key} must be readable, got {error.filename} ({error.strerror}); correct its name, change its "
            f"permissions or move it."
        ) from error


def in_system_folder(path: Path) -> bool:
    """Whether a path leads through a folder in which a system keeps copies of its own.

    Args:
        path: relative to what the user named.
    """
    return any(part.lower() in _SYSTEM_FOLDERS for part in path.parts)


def _image_files(folder: Path, key: str) -> list[Path]:
    with readable(key):
        if not folder.is_dir():
            what = "is a link that leads nowhere" if folder.is_symlink() else "does not exist"
            what = "is a file" if folder.exists() else what
            raise FileNotFoundError(
                f"{key} must be a folder of images ({', '.join(SUFFIXES)}), got {folder.absolute()}, which {what}."
            )
        files = sorted(_walk(folder, key))
    if not files:
        raise FileNotFoundError(
            f"{key} must hold images ({', '.join(SUFFIXES)}), got {folder.absolute()}, which exists but holds none."
        )
    return files


def _walk(folder: Path, key: str, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Files below a folder; a link that leads back to a folder above is not followed."""
    above |= {os.path.realpath(folder)}
    for entry in os.scandir(folder):
        suffix = Path(entry.name).suffix.lower()
        if entry.name.startswith("."):
            continue
        if suffix in ("", *SUFFIXES) and entry.is_symlink() and not Path(entry.path).exists():
            raise ValueError(
                f"{key} must hold files, got the link {entry.path} to {Path(entry.path).readlink()}, which leads "
                f"nowhere; mend or remove it."
            )
        if entry.is_dir():
            if not in_system_folder(Path(entry.name)) and os.path.realpath(entry.path) not in above:
                yield from _walk(Path(entry.path), key, above)
        elif suffix in SUFFIXES and entry.is_file():
            yield Path(entry.path)


def _by_stem(files: Iterable[Path], folder: Path, key: str, suffix: str = "") -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in files:
        stem = _normal(path.relative_to(folder).with_suffix("").as_posix()).removesuffix(suffix)
        if stem in found:
            raise ValueError(
                f"{key} must hold one file a name, got {found[stem]} and {path}; rename one, or "
                f"give images and masks folders of their own or a data.mask_suffix."
            )
        found[stem] = path
    return found


def _in_brackets(stems: list[str]) -> str:
    if not stems:
        return ""
    return f" ({listed(stems)})"


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)
