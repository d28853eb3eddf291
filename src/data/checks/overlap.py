"""Validation images that the model trains on: scores would say nothing about new images."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from src.data.checks.finding import Finding
from src.data.pairs import Pair
from src.wording import listed


def shared_images(
    training: Sequence[Pair], validation: Sequence[Pair], compared: Sequence[Pair], seconds: float
) -> Iterator[Finding]:
    """A warning that names validation images that are training images too: the same file, or the same content.

    The same file shows by its place on the disk, links followed; content is read only where lengths in bytes agree.

    Args:
        training: the training images.
        validation: the validation images.
        compared: those of the validation images whose content is compared.
        seconds: no further training image is looked at after this time.
    """
    end = time.monotonic() + seconds
    places: dict[tuple[int, int], Path] = {}
    contents: dict[bytes, Path] = {}
    lengths = {place[1] for pair in compared if (place := _place(pair.image))}
    for pair in training:
        if time.monotonic() > end:
            break
        if place := _place(pair.image):
            places[place[0]] = pair.image
            if place[1] in lengths and (digest := _digest(pair.image)):
                contents[digest] = pair.image
    by_content = {pair.image for pair in compared} if contents else set()
    same = []
    for image in (pair.image for pair in validation):
        place = _place(image)
        other = places.get(place[0]) if place else None
        if other is None and image in by_content and (digest := _digest(image)):
            other = contents.get(digest)
        if other is not None:
            same.append(f"{image} is {other}")
    if same:
        yield Finding(
            "warning",
            f"{len(same)} of {len(validation)} validation images are training images too: {listed(same)}. Scores of "
            f"images that were trained on are too good; give validation images of their own (data.val_images).",
        )


def _place(path: Path) -> tuple[tuple[int, int], int] | None:
    """What tells a file from all others, and its length in bytes; None where a data set names what is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino), status.st_size


def _digest(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
