"""How the files of one data set are read: what stands between a pair of paths and pixels with labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.image_io import image_size, read_image, read_mask

ReadImage = Callable[[Path, int], np.ndarray]
"""``read(path, channels)`` gives ``(H, W, C)`` uint8."""

ReadMask = Callable[[Path], np.ndarray]
"""``read(path)`` gives the stored values ``(H, W)`` of any integer type."""


@dataclass(frozen=True)
class Source:
    """Readers of image and mask files, and what the values in the masks mean.

    Args:
        read_image: reads an image file.
        read_mask: reads a mask file.
        encoder: turns stored values into class indices; None where there are no masks.
        max_image_pixels: most pixels that a file may have, for the readers of this package; None means what Pillow
            allows.
    """

    read_image: ReadImage = read_image
    read_mask: ReadMask = read_mask
    encoder: LabelEncoder | None = None
    max_image_pixels: int | None = None

    def __post_init__(self) -> None:
        for name, reader in (("read_image", read_image), ("read_mask", read_mask)):
            if getattr(self, name) is reader and self.max_image_pixels is not None:
                object.__setattr__(self, name, partial(reader, max_pixels=self.max_image_pixels))

    @property
    def reads_as_usual(self) -> bool:
        """Whether images are read by this package, which knows their size without decoding them."""
        return getattr(self.read_image, "func", self.read_image) is read_image

    @contextmanager
    def naming(self, pair: Pair) -> Iterator[None]:
        """Adds the files to whatever goes wrong inside, since a reader may fail without a name, in a worker.

        Args:
            pair: image and mask files.
        """
        try:
            yield
        except Exception as error:
            if str(pair.image) not in str(error) and str(pair.mask) not in str(error):
                error.add_note(f"while reading {pair.image}" + ("" if pair.mask is None else f" and {pair.mask}"))
            raise

    def reduced_image(
        self, pair: Pair, channels: int, enough: Callable[[tuple[int, int]], tuple[int, int]]
    ) -> tuple[np.ndarray, tuple[int, int]]:
        """The pixels of an image, a JPEG's perhaps at a part of its size, and its full height and width.

        Args:
            pair: image and mask files.
            channels: number of channels.
            enough: gives, for the full height and width, those that are needed.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the image cannot be read, or comes in another size than its head says.
        """
        if not self.reads_as_usual:
            image = self.read_image(pair.image, channels)
            return image, (image.shape[0], image.shape[1])
        size = image_size(pair.image, self.max_image_pixels)
        image = read_image(pair.image, channels, self.max_image_pixels, least=enough(size))
        if image.shape[:2] not in [(-(-size[0] // part), -(-size[1] // part)) for part in (1, 2, 4, 8)]:
            raise ValueError(
                f"{pair.image} must have the size that its head says, got {image.shape[0]}x{image.shape[1]} in place "
                f"of {size[0]}x{size[1]} (height x width); save it again."
            )
        return image, size

    def labels(self, pair: Pair, size: tuple[int, int]) -> np.ndarray:
        """Class indices ``(H, W)`` uint8 of a pair's mask, 255 where there is no label.

        Args:
            pair: image and mask files.
            size: height and width of the image in pixels.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: there is no mask, it cannot be read, is not of the image's size, or holds unknown values.
        """
        if pair.mask is None or self.encoder is None:
            raise ValueError(
                f"{pair.image} must have a mask for training and evaluation, got none; use predict instead."
            )
        stored = self.read_mask(pair.mask)
        if stored.shape != size:
            raise ValueError(
                f"mask must have the size of its image, got {pair.mask} with {stored.shape[0]}x{stored.shape[1]} and "
                f"{pair.image} with {size[0]}x{size[1]} (height x width); export one of them again."
            )
        return self.encoder(stored, pair.mask)
