"""Reading image and mask files: pixels as they are seen, masks as the numbers that are stored.

Of a file with several pictures, such as an animation, the first is read; a TIFF with several pages of one size is a
stack and refused.
"""

import os
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""The files that are taken for images, in small letters."""

_MODES = {1: "L", 3: "RGB"}
_DEEP_MODES = ("I", "F")
_STRETCHED = {"L;2": 85, "L;4": 17}
"""Pillow multiplies the values of grey PNGs of 2 and 4 bits up to 255."""
_GUARD = threading.Lock()
"""Pillow's limit and Python's list of warnings are one for the whole process."""


def read_image(
    path: str | Path, channels: int = 3, max_pixels: int | None = None, least: tuple[int, int] | None = None
) -> np.ndarray:
    """The pixels of an image file ``(H, W, C)`` uint8, turned upright as its EXIF tag says, transparency dropped.

    Args:
        path: the file.
        channels: 3 for red, green, blue; 1 for grey.
        max_pixels: most pixels that a file may have; None means what Pillow allows.
        least: height and width in pixels, turned upright, that are enough: a JPEG of at least twice this size is
            decoded at a half, a quarter or an eighth, never below it. None decodes at full size.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be decoded, is too large, or has more than 8 bits a channel, or ``channels`` is
            neither 1 nor 3.
    """
    if channels not in _MODES:
        raise ValueError(f"channels must be 1 or 3, got {channels}; give preprocessing.mean one or three numbers.")
    with _opened(path, max_pixels) as image:
        raw_mode = _raw_mode(image)
        if least is not None:
            image.draft(None, least if _lies(image) else least[::-1])
        pixels = None if _is_deep(image) else picture_pixels(image, channels)
    if pixels is None:
        raise ValueError(
            f"image must have 8 bits a channel, got mode {raw_mode} in {path}; convert it to 8 bits first."
        )
    return pixels


def picture_pixels(picture: Image.Image, channels: int = 3) -> np.ndarray:
    """The pixels of a Pillow picture ``(H, W, C)`` uint8, turned upright as its EXIF tag says, transparency dropped.

    Args:
        picture: the picture, of 8 bits a channel.
        channels: 3 for red, green, blue; 1 for grey.

    Raises:
        ValueError: the picture has more than 8 bits a channel, or ``channels`` is neither 1 nor 3.
    """
    if channels not in _MODES:
        raise ValueError(f"channels must be 1 or 3 for a picture, got {channels}; give an array instead.")
    if _is_deep(picture):
        raise ValueError(
            f"image must have 8 bits a channel, got a picture of mode {_raw_mode(picture)}; convert it to 8 bits first."
        )
    mode = _MODES[channels]
    picture.load()  # turns a TIFF
    if picture.mode == mode and not _is_turned(picture):
        pixels = np.asarray(picture)  # the usual photograph, without the copies that turning and converting make
    else:
        upright = ImageOps.exif_transpose(picture)
        upright.info.pop("transparency", None)  # else Pillow warns that it is dropped
        pixels = np.asarray(upright.convert(mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def read_mask(path: str | Path, max_pixels: int | None = None) -> np.ndarray:
    """The numbers that a mask file stores, ``(H, W)`` of uint8, uint16 or int32, turned upright as its EXIF tag says.

    Palette files give their indices, not their colours; three equal channels give one of them.

    Args:
        path: the file.
        max_pixels: most pixels that a file may have; None means what Pillow allows.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be decoded, is too large, is stored with loss, or does not hold one number a pixel.
    """
    with _opened(path, max_pixels) as image:
        raw_mode, brightest, lossy = _raw_mode(image), _brightest(image), _lossy(image, path)
        ids = np.asarray(ImageOps.exif_transpose(image))
        mode = image.mode
    if lossy:
        raise ValueError(
            f"mask must be stored without loss, got {lossy} with {len(np.unique(ids))} distinct values in {path}; it "
            f"changes values near edges, so export the masks again as PNG."
        )
    if brightest is not None:
        ids = np.rint(ids * (brightest / (65535 if mode == "I" else 255))).astype(ids.dtype)
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


def image_size(path: str | Path, max_pixels: int | None = None) -> tuple[int, int]:
    """Height and width in pixels of an image turned upright, read from the head of the file without decoding it.

    Args:
        path: the file.
        max_pixels: most pixels that a file may have; None means what Pillow allows.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not an image or too large.
    """
    with _opened(path, max_pixels) as image:
        return (image.width, image.height) if _lies(image) else (image.height, image.width)


@contextmanager
def _opened(path: str | Path, max_pixels: int | None) -> Iterator[Image.Image]:
    """The file, open; whatever goes wrong inside is said to be the file's fault."""
    try:
        # an open file instead of its path, which Pillow would map into memory and scramble where a tag turns a TIFF
        with Path(path).open("rb") as file:
            with _limited(max_pixels):
                image = Image.open(file)
                if image.format == "TIFF" and _is_stack(image):
                    raise ValueError("it is a stack of pages of one size; save each page as a file of its own")
            # a TIFF alone is measured again when it is decoded; other files need not wait for one another there
            with image, _limited(max_pixels) if image.format == "TIFF" else nullcontext():
                yield image
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path} does not exist; it was moved or removed, or is a link that leads nowhere."
        ) from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} must be an image file, got a folder; give the files in it.") from error
    except Image.DecompressionBombError as error:
        raise ValueError(
            f"{path} is larger than data.max_image_pixels ({str(error).partition(',')[0]}); raise it if you trust "
            f"the file."
        ) from error
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} cannot be read as an image (of no known format); replace or remove it.") from error
    except MemoryError:
        raise
    except Exception as error:  # of a damaged file, Pillow raises almost anything
        told = error if isinstance(error, OSError | SyntaxError | ValueError) else repr(error)
        raise ValueError(f"{path} cannot be read as an image ({told}); replace or remove the file.") from error


@contextmanager
def _limited(max_pixels: int | None) -> Iterator[None]:
    """Pillow's own guard, which refuses above twice its limit and warns above its limit, without the warning."""
    with _GUARD, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        before = Image.MAX_IMAGE_PIXELS
        if max_pixels is not None:
            Image.MAX_IMAGE_PIXELS = Fraction(max_pixels, 2)  # type: ignore[assignment]
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _is_stack(image: Image.Image) -> bool:
    """Whether the second page is as large as the first; smaller copies of a picture are no stack."""
    if getattr(image, "n_frames", 1) == 1:
        return False
    first = image.size
    image.seek(1)
    second = image.size
    image.seek(0)
    return first == second


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith(_DEEP_MODES) or ";16" in _raw_mode(image)


def _lies(image: Image.Image) -> bool:
    """Whether the tag turns the picture by a quarter; Pillow has turned a TIFF by itself."""
    tags = Image.Image.getexif(image)  # the method of PNG files decodes the pixels first
    return image.format != "TIFF" and tags.get(ExifTags.Base.Orientation) in (5, 6, 7, 8)


def _is_turned(image: Image.Image) -> bool:
    """Whether the tag turns or mirrors the picture, which is decoded."""
    return image.getexif().get(ExifTags.Base.Orientation, 1) != 1


def _raw_mode(image: Image.Image) -> str:
    """How the file itself stores a pixel, for example ``L;4``, where the decoder says so."""
    raw_mode, *rest = _decoder_arguments(image) or (None,)
    if not isinstance(raw_mode, str):
        return image.mode
    return f"{raw_mode};16" if _is_netpbm(image) and rest and rest[0] > 255 else raw_mode


def _brightest(image: Image.Image) -> int | None:
    """The number that a PGM or PPM file says is the brightest, where Pillow stretches the others to it."""
    arguments = _decoder_arguments(image)
    return arguments[1] if _is_netpbm(image) and len(arguments) == 2 else None


def _is_netpbm(image: Image.Image) -> bool:
    return image.format == "PPM" and image.mode != "F"


def _decoder_arguments(image: Image.Image) -> tuple[Any, ...]:
    tiles = getattr(image, "tile", [])
    arguments = tiles[0].args if tiles else ()
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _lossy(image: Image.Image, path: str | Path) -> str:
    """The way in which the file is stored, if it changes values; else nothing."""
    if image.format in ("JPEG", "MPO"):
        return "JPEG"
    if image.format == "TIFF" and image.info.get("compression") in ("jpeg", "tiff_jpeg"):
        return "TIFF with JPEG inside"
    return "lossy WebP" if image.format == "WEBP" and _is_lossy_webp(Path(path)) else ""


def _is_lossy_webp(path: Path) -> bool:
    """Whether the first picture lies in a chunk ``VP8 `` and not ``VP8L``, perhaps inside one of an animation."""
    with path.open("rb") as file:
        file.seek(12)
        while len(head := file.read(8)) == 8:
            kind, size = struct.unpack("<4sI", head)
            if kind in (b"VP8 ", b"VP8L"):
                return bool(kind == b"VP8 ")
            file.seek(16 if kind == b"ANMF" else size + size % 2, os.SEEK_CUR)
    return False
