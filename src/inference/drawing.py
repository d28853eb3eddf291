"""Label maps as pictures a person can look at."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from src.classes import ClassList, Colour

UNLABELLED: Colour = (0, 0, 0)
"""The colour of pixels whose label is none of the classes."""


def colour_table(palette: Sequence[Colour]) -> np.ndarray:
    """Colours by label, ``(256, 3)`` uint8; labels without a class are black.

    Args:
        palette: one colour for each class, at most 256.

    Raises:
        ValueError: there are more classes than one byte can number.
    """
    if len(palette) > 256:
        raise ValueError(f"a palette must have at most 256 classes, got {len(palette)}; merge or leave out classes.")
    table = np.full((256, 3), UNLABELLED, dtype=np.uint8)
    if palette:
        table[: len(palette)] = palette
    return table


def coloured(labels: np.ndarray, palette: Sequence[Colour]) -> np.ndarray:
    """A label map in the colours of its classes, ``(H, W, 3)`` uint8.

    Args:
        labels: ``(H, W)`` integers in 0..255.
        palette: one colour for each class, at most 256.
    """
    return colour_table(palette)[labels.astype(np.uint8)]


def overlaid(image: np.ndarray, labels: np.ndarray, palette: Sequence[Colour], opacity: float = 0.5) -> np.ndarray:
    """An image with its label map over it, ``(H, W, 3)`` uint8.

    Args:
        image: ``(H, W, 3)`` uint8.
        labels: ``(H, W)`` integers in 0..255.
        palette: one colour for each class, at most 256.
        opacity: of the label map, a fraction in 0..1.
    """
    mixed = image.astype(np.float32) * (1 - opacity) + coloured(labels, palette).astype(np.float32) * opacity
    return (mixed + 0.5).astype(np.uint8)


def palette_image(labels: np.ndarray, palette: Sequence[Colour]) -> Image.Image:
    """A label map as an indexed picture (mode P): the pixels are the labels, the palette makes them visible.

    Args:
        labels: ``(H, W)`` integers in 0..255.
        palette: one colour for each class, at most 256.
    """
    picture = Image.fromarray(labels.astype(np.uint8), mode="L")
    picture.putpalette(colour_table(palette).tobytes())
    return picture


def mask_image(labels: np.ndarray, classes: ClassList) -> Image.Image:
    """A label map as a mask file of the data set: the pixels are the ids of the classes, so it can be read as a label.

    An indexed picture (mode P) with the palette in it, or 16 bits a pixel (mode I;16) where an id is above 255.

    Args:
        labels: ``(H, W)`` integers, indices of the classes.
        classes: ids and colours of the classes.

    Raises:
        ValueError: an id needs more than 16 bits.
    """
    ids = np.array(classes.ids)
    if ids.max() > np.iinfo(np.uint16).max:
        raise ValueError(f"class ids must be at most 65535 to be written as masks, got {ids.max()}; renumber them.")
    if ids.max() > np.iinfo(np.uint8).max:
        return Image.fromarray(ids.astype(np.uint16)[labels])
    palette = [UNLABELLED] * (int(ids.max()) + 1)
    for class_id, colour in zip(classes.ids, classes.palette, strict=True):
        palette[class_id] = colour
    return palette_image(ids[labels], palette)
