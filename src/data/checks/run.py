"""All checks, one after another."""

from collections.abc import Sequence

from src.classes import ClassList
from src.data.checks.coverage import dropped_classes, labelled_classes
from src.data.checks.finding import Finding
from src.data.checks.overlap import shared_images
from src.data.checks.scan import scan_masks, spread
from src.data.checks.smooth import smooth_masks
from src.data.checks.unreadable import unusable_files
from src.data.checks.values import unknown_values
from src.data.pairs import Pair
from src.data.source import Source

FAST_MASKS = 64
"""How many masks of each split a fast check looks into."""

FAST_SECONDS = 2.0
"""After how long a fast check begins no further file, for each split and for the comparison of their images."""


def check_files(
    training: Sequence[Pair],
    validation: Sequence[Pair],
    sources: Sequence[Source],
    classes: ClassList,
    channels: int = 3,
    full: bool = False,
    show_progress: bool = False,
) -> list[Finding]:
    """What is wrong, or may be, with the files of a run.

    Args:
        training: images and masks to train on.
        validation: images and masks to score.
        sources: how files are read and what values mean; each pair says which of them is its own.
        classes: the classes of the run.
        channels: of an image.
        full: whether to look into every file; else into a spread sample, for a few seconds at most.
        show_progress: whether to draw a bar.
    """
    findings = list(dropped_classes(sources))
    for split, pairs in (("training", training), ("validation", validation)):
        findings += _of_split(split, pairs, sources, classes, channels, full, show_progress)
    compared = validation if full else spread(validation, FAST_MASKS)
    return [*findings, *shared_images(training, validation, compared, float("inf") if full else FAST_SECONDS)]


def check_scored_files(
    pairs: Sequence[Pair],
    sources: Sequence[Source],
    classes: ClassList,
    channels: int = 3,
    full: bool = False,
    show_progress: bool = False,
) -> list[Finding]:
    """What is wrong, or may be, with files that are only scored.

    Args:
        pairs: images and masks to score.
        sources: how files are read and what values mean; each pair says which of them is its own.
        classes: the classes of the run.
        channels: of an image.
        full: whether to look into every file; else into a spread sample, for a few seconds at most.
        show_progress: whether to draw a bar.
    """
    return [
        *dropped_classes(sources),
        *_of_split("scored", pairs, sources, classes, channels, full, show_progress),
    ]


def _of_split(
    split: str,
    pairs: Sequence[Pair],
    sources: Sequence[Source],
    classes: ClassList,
    channels: int,
    full: bool,
    show_progress: bool,
) -> list[Finding]:
    limit, seconds = (None, float("inf")) if full else (FAST_MASKS, FAST_SECONDS)
    scan = scan_masks(split, pairs, sources, channels, limit, seconds, show_progress)
    unknown = list(unknown_values(scan, sources))
    coverage = [] if unknown else labelled_classes(scan, sources, classes)
    return [*unusable_files(scan), *unknown, *smooth_masks(scan), *coverage]
