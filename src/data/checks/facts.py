"""What was seen in the masks of a split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MaskFacts:
    """What was seen in one mask.

    Args:
        path: the file.
        source: place of its data set among those of the run.
        pixels: how many pixels hold each stored value; empty where there is a problem.
        smooth_share: see ``smooth_share``.
        problem: why the image and its mask cannot be used; None where they can.
    """

    path: Path | None
    source: int
    pixels: dict[int, int]
    smooth_share: float = 0.0
    problem: str | None = None


@dataclass(frozen=True)
class Scan:
    """What was seen in the masks of a split.

    Args:
        split: ``training`` or ``validation``.
        num_pairs: how many masks the split has.
        masks: those that were looked at.
    """

    split: str
    num_pairs: int
    masks: Sequence[MaskFacts]

    @property
    def complete(self) -> bool:
        """Whether every mask was looked at."""
        return len(self.masks) == self.num_pairs

    @property
    def looked_at(self) -> str:
        """How much was looked at, in words."""
        what = f"{self.num_pairs} {self.split} mask{'' if self.num_pairs == 1 else 's'}"
        return f"the {what}" if self.complete else f"the {len(self.masks)} of {what} looked at"
