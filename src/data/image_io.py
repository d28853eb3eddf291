"""Reading image and mask files: pixels as they are seen, masks as the numbers that are stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""The files that are taken for images, in small letters."""

_MODES = {1: "L", 3: "RGB"}
_DEEP_MODES = ("I", "F")
_STRETCHED = {"L;2": 85, "L;4": 17}
"""Pillow multiplies the values of grey PNGs of 2 and 4 bits up to 255."""


def read_image(path: str | Path, channels: int = 3) -> np.ndarray:
    """The pixels of an image file ``(H, W, C)`` uint8, turned upright as its EXIF tag says, transparency dropped.

    Args:
        path: the file.
        channels: 3 for red, green, blue; 1 for grey.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be decoded or has more than 8 bits a channel, or ``channels`` is neither 1 nor 3.
    """
    if channels not in _MODES:
        raise ValueError(f"channels must be 1 or 3, got {channels}; give preprocessing.mean one or three numbers.")
    with _opened(path) as image:
        if image.mode.startswith(_DEEP_MODES) or ";16" in _raw_mode(image):
            raise ValueError(
                f"image must have 8 bits a channel, got mode {_raw_mode(image)} in {path}; convert it to 8 bits first."
            )
        pixels = np.asarray(ImageOps.exif_transpose(image).convert(_MODES[channels]))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def read_mask(path: str | Path) -> np.ndarray:
    """The numbers that a mask file stores, ``(H, W)`` of uint8, uint16 or int32.

    Palette files give their indices, not their colours; three equal channels give one of them.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be decoded, is JPEG, or does not hold one number a pixel.
    """
    with _opened(path) as image:
        raw_mode = _raw_mode(image)
        ids = np.asarray(ImageOps.exif_transpose(image))
        mode, lossy = image.mode, image.format == "JPEG"
    if lossy:
        raise ValueError(
            f"mask must be stored without loss, got JPEG with {len(np.unique(ids))} distinct values in {path}; JPEG "
            f"changes values near edges, so export the masks again as PNG."
        )
    if mode == "RGB" and ";16" not in raw_mode and (ids == ids[:, :, :1]).all():
        return ids[:, :, 0].copy()
    if mode == "1":
        return ids.astype(np.uint8)
    if mode in ("L", "P"):
        return ids // _STRETCHED.get(raw_mode, 1)
    if mode.startswith("I"):
        return ids.astype(ids.dtype.newbyteorder("="))
    raise ValueError(
        f"mask must store one class id a pixel (modes L, P, 1, I, I;16, or RGB with equal channels), got mode "
        f"{raw_mode} in {path}; export it as an indexed or grey PNG."
    )


def image_size(path: str | Path) -> tuple[int, int]:
    """Height and width in pixels of an image turned upright, read from the head of the file without decoding it.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not an image.
    """
    with _opened(path) as image:
        tags = Image.Image.getexif(image)  # the method of PNG files decodes the pixels first
        lying = image.format != "TIFF" and tags.get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
        return (image.width, image.height) if lying else (image.height, image.width)


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError:
        raise
    except Image.DecompressionBombError as error:
        raise ValueError(
            f"{path} is larger than Pillow allows ({error}); raise PIL.Image.MAX_IMAGE_PIXELS if you trust the file."
        ) from error
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{path} cannot be read as an image ({error}); replace or remove the file.") from error


def _raw_mode(image: Image.Image) -> str:
    """How the file itself stores a pixel, for example ``L;4``, where the decoder says so."""
    tiles = getattr(image, "tile", [])
    arguments = tiles[0].args if tiles else None
    raw_mode = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return raw_mode if isinstance(raw_mode, str) else image.mode
