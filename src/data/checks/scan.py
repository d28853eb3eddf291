"""Looks into the masks of a split: all of them, or a spread sample."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from rich.progress import track

from src.data.checks.facts import MaskFacts, Scan
from src.data.checks.smooth import smooth_share
from src.data.loader import num_cores
from src.data.pairs import Pair
from src.data.source import Source
from src.image_io import image_size

_THREADS = 8
_LEAST = 8
"""Masks that are looked into however long they take, since fewer would say little."""

_BAND = 2**22
"""Pixels that are counted at once, since counting takes eight bytes for each."""


def spread(pairs: Sequence[Pair], limit: int) -> list[Pair]:
    """Pairs spread evenly over each data set, at most ``limit`` or one a data set, in an order without a plan.

    Args:
        pairs: all of them.
        limit: how many to take.
    """
    if len(pairs) <= limit:
        return list(pairs)
    by_source: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_source.setdefault(pair.source, []).append(pair)
    share = max(1, limit // len(by_source))
    chosen = [
        group[index]
        for group in by_source.values()
        for index in np.unique(np.linspace(0, len(group) - 1, min(share, len(group))).round().astype(int))
    ]
    return [chosen[index] for index in np.random.default_rng(0).permutation(len(chosen))]


def scan_masks(
    split: str,
    pairs: Sequence[Pair],
    sources: Sequence[Source],
    channels: int,
    limit: int | None,
    seconds: float,
    show_progress: bool = False,
) -> Scan:
    """Looks into masks, and at the sizes of their images.

    Args:
        split: ``training`` or ``validation``.
        pairs: image and mask files.
        sources: how they are read; each pair says which of them is its own.
        channels: of an image.
        limit: how many to look into; None for all, and then images are decoded too.
        seconds: no further mask is looked into after this time, except the first 8.
        show_progress: whether to draw a bar.
    """
    end = time.monotonic() + seconds
    chosen = list(pairs) if limit is None else spread(pairs, limit)
    masks: list[MaskFacts] = []
    with ThreadPoolExecutor(min(_THREADS, num_cores())) as pool:
        look = partial(_look, sources=sources, channels=channels, decode=limit is None)
        try:
            futures = [pool.submit(look, pair) for pair in chosen]
            for future in track(futures, f"Checking {split} files", transient=True, disable=not show_progress):
                masks.append(future.result())
                if len(masks) >= _LEAST and time.monotonic() > end:
                    break
        finally:
            pool.shutdown(cancel_futures=True)
    return Scan(split, len(pairs), masks)


def _look(pair: Pair, sources: Sequence[Source], channels: int, decode: bool) -> MaskFacts:
    source = sources[pair.source]
    try:
        stored = _stored(pair, source, channels, decode)
    except MemoryError:
        raise
    except Exception as error:  # a reader of the user's own may raise anything
        told = str(error) if isinstance(error, ValueError | OSError) else repr(error)
        return MaskFacts(pair.mask, pair.source, {}, problem=" ".join([told, *getattr(error, "__notes__", ())]))
    if stored.dtype == np.uint8:
        bands = np.array_split(stored, 1 + stored.size // _BAND)
        counts = np.sum([np.bincount(band.ravel(), minlength=256) for band in bands], axis=0)
        values = np.flatnonzero(counts)
        counts = counts[values]
    else:
        values, counts = np.unique(stored, return_counts=True)
    pixels = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return MaskFacts(pair.mask, pair.source, pixels, smooth_share(stored) if len(pixels) > 2 else 0.0)


def _stored(pair: Pair, source: Source, channels: int, decode: bool) -> np.ndarray:
    """The values as they are stored, with all that the source itself looks at."""
    with source.naming(pair):
        if decode or not source.reads_as_usual:
            image = source.read_image(pair.image, channels)
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != channels:
                raise ValueError(f"image must be (H, W, {channels}) of uint8, got {image.shape} of {image.dtype}")
            height, width = image.shape[:2]
        else:
            height, width = image_size(pair.image, source.max_image_pixels)
        stored = replace(source, encoder=cast("Any", lambda stored, path: stored)).labels(pair, (height, width))
        if stored.dtype.kind not in "bui":
            raise ValueError(f"mask must hold whole numbers, got {stored.dtype} in {pair.mask}.")
    return stored.view(np.uint8) if stored.dtype == bool else stored
