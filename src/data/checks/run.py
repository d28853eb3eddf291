"""All checks, one after another."""

from collections.abc import Mapping, Sequence

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
    splits: Mapping[str, Sequence[Pair]],
    sources: Sequence[Source],
    classes: ClassList,
    channels: int = 3,
    full: bool = False,
) -> list[Finding]:
    """What is wrong, or may be, with the files of a run.

    Args:
        splits: images and masks, by what is done with them: ``training`` and ``validation``, or ``scored`` alone.
        sources: how files are read and what values mean; each pair says which of them is its own.
        classes: the classes of the run.
        channels: of an image.
        full: whether to look into every file, with a bar; else into a spread sample, for a few seconds at most.
    """
    limit, seconds = (None, float("inf")) if full else (FAST_MASKS, FAST_SECONDS)
    findings = list(dropped_classes(sources))
    for split, pairs in splits.items():
        scan = scan_masks(split, pairs, sources, channels, limit, seconds, show_progress=full)
        unknown = list(unknown_values(scan, sources))
        findings += [*unusable_files(scan), *unknown, *smooth_masks(scan)]
        findings += [] if unknown else labelled_classes(scan, sources, classes)
    if "training" in splits:
        validation = splits["validation"]
        compared = validation if full else spread(validation, FAST_MASKS)
        findings += shared_images(splits["training"], validation, compared, seconds)
    return findings
