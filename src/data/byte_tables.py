"""Changes and counts of pixels of 8 bits by tables of 256 entries, one look-up a pixel."""

import functools
from collections.abc import Sequence

import cv2
import numpy as np

_EXACT = 2**24
"""OpenCV counts in float32, which is exact below this."""


def linear_table(factor: float = 1, offset: float = 0) -> np.ndarray:
    """What ``value * factor + offset`` makes of 0..255, cut off at 0 and 255 and rounded down, ``(256,)`` uint8.

    Args:
        factor: of each value.
        offset: what to add then.
    """
    table = np.clip(np.arange(256, dtype=np.float32) * np.float32(factor) + np.float32(offset), 0, 255)
    return table.astype(np.uint8)


def looked_up(pixels: np.ndarray, tables: Sequence[np.ndarray]) -> np.ndarray:
    """Pixels after one table and then the next, in one pass; the pixels themselves where there is no table.

    Args:
        pixels: any shape, uint8.
        tables: what becomes of each value, ``(256,)`` uint8 each.
    """
    if not tables or not pixels.size:
        return pixels
    joined = functools.reduce(lambda first, second: second[first], tables)
    return cv2.LUT(pixels, joined).reshape(pixels.shape)


def looked_up_in_hsv(pixels: np.ndarray, channel: int, table: np.ndarray) -> np.ndarray:
    """Pixels after one table on their hue, saturation or value.

    Args:
        pixels: red, green and blue ``(H, W, 3)`` uint8.
        channel: 0 for the hue in 0..179, 1 for the saturation, 2 for the value.
        table: what becomes of each value, ``(256,)`` uint8.
    """
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
    cv2.insertChannel(cv2.LUT(cv2.extractChannel(hsv, channel), table), hsv, channel)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def counts(pixels: np.ndarray) -> np.ndarray:
    """How often each of 0..255 occurs, ``(256,)`` int64.

    Args:
        pixels: ``(H, W)`` uint8, a view too.
    """
    if not 0 < pixels.size < _EXACT:
        return np.bincount(pixels.ravel(), minlength=256)
    return cv2.calcHist([pixels], [0], None, [256], [0, 256]).ravel().astype(np.int64)
