"""Masks that were resized or drawn with a smooth filter: values of no meaning lie along every edge.

Along a row or a column, a smooth edge from 2 to 9 leaves pixels like 4 or 7, each strictly between its neighbours.
Their part of the places where values change was at most 5 % in masks drawn by hand or by code (CamVid, ADE20K and
others), at most 11 % in these resized to 0.3 to 3 times their size by the nearest neighbour, and 35 to 100 % by
Pillow's bilinear, bicubic and Lanczos filters. In noise it is below a third.
"""

from collections.abc import Iterator

import numpy as np

from src.data.checks.facts import Scan
from src.data.checks.finding import Finding
from src.wording import listed

_LARGEST_SHARE = 0.34
_FEWEST_EDGES = 50
_MOST_PIXELS = 2**22


def smooth_share(stored: np.ndarray) -> float:
    """Part of the places where values change that hold a value strictly between its neighbours, 0..1.

    Of a large mask the rows in the middle are looked at.

    Args:
        stored: values of a mask ``(H, W)``, of any integer type.
    """
    rows = max(1, _MOST_PIXELS // max(1, stored.shape[1]))
    first = max(0, (stored.shape[0] - rows) // 2)
    stored = stored[first : first + rows]
    wide = stored.astype(np.int16 if stored.dtype.itemsize == 1 else np.int64)
    between = changes = 0
    for axis in (0, 1):
        steps = np.diff(wide if axis else wide.T, axis=1)
        before, after = steps[:, :-1], steps[:, 1:]
        double = (before != 0) & (after != 0)
        between += int(np.count_nonzero(double & ((before > 0) == (after > 0))))
        flat = steps == 0
        sharp = flat[:, :-2] & (np.abs(steps[:, 1:-1]) > 1) & flat[:, 2:]
        changes += int(np.count_nonzero(double)) + int(np.count_nonzero(sharp))
    return between / changes if changes >= _FEWEST_EDGES else 0.0


def smooth_masks(scan: Scan) -> Iterator[Finding]:
    """A warning that names the masks with smooth edges.

    Args:
        scan: masks of one split.
    """
    files = [mask.path for mask in scan.masks if mask.smooth_share > _LARGEST_SHARE]
    if files:
        yield Finding(
            "warning",
            f"{len(files)} of {scan.looked_at} have values between those of their neighbours along the edges, as a "
            f"smooth filter leaves them: {listed(files)}. Such values stand for classes that are not there; resize "
            f"masks with the nearest neighbour and draw them without anti-aliasing.",
        )
