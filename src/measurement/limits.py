"""The numbers that may never get worse, as ratios to transformers in one run on a CPU.

It is measured as its users run it and tuned, both with its own scaled dot product attention; the one that does better
in a row counts there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from src.measurement.options import OURS

PEERS = ("transformers", "transformers, tuned")


@dataclass(frozen=True)
class Limit:
    """One ratio that is held.

    Args:
        model: the size of the model.
        row: what is measured.
        numerics: ``exact`` or ``fast``.
        limit: the ratio that is the worst allowed.
        goal: the ratio that is aimed at.
        at_least: larger is better (times: theirs over ours); else smaller is (memory: ours over theirs).
    """

    model: str
    row: str
    numerics: str
    limit: float
    goal: float
    at_least: bool = True

    @property
    def ours(self) -> str:
        """What ours are called there."""
        return OURS[self.numerics]

    def holds(self, ratio: float) -> bool:
        """Whether a ratio is within the limit."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def reaches(self, ratio: float) -> bool:
        """Whether a ratio is as good as the goal."""
        return ratio >= self.goal if self.at_least else ratio <= self.goal


LIMITS = (
    Limit("tiny", "label_map", "exact", 1.4, 1.8),
    Limit("tiny", "label_map", "fast", 2.3, 3.0),
    Limit("tiny", "training", "exact", 1.4, 1.7),
    Limit("tiny", "training", "fast", 1.7, 2.2),
    Limit("tiny", "training_memory", "exact", 0.60, 0.40, at_least=False),
    Limit("tiny", "label_map_memory", "exact", 0.50, 0.35, at_least=False),
    Limit("small", "label_map", "fast", 1.9, 2.5),
    Limit("base", "label_map", "fast", 1.6, 2.0),
    Limit("large", "label_map", "fast", 1.25, 1.6),
    Limit("tiny", "evaluation", "fast", 2.3, 3.0),
)
"""What ``--check`` holds, at the default sizes."""


def rows_by_model() -> dict[str, tuple[str, ...]]:
    """What must be measured of each model for ``LIMITS``."""
    models = dict.fromkeys(limit.model for limit in LIMITS)
    return {model: tuple(dict.fromkeys(limit.row for limit in LIMITS if limit.model == model)) for model in models}


@dataclass(frozen=True)
class Verdict:
    """A limit and what was measured.

    Args:
        limit: the limit.
        ratio: the median ratio; None where it was not measured, which does not hold it.
    """

    limit: Limit
    ratio: float | None

    @property
    def holds(self) -> bool:
        """Whether the limit was measured and held."""
        return self.ratio is not None and self.limit.holds(self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types."""
        word = "not measured" if self.ratio is None else "held" if self.holds else "missed"
        reached = self.ratio is not None and self.limit.reaches(self.ratio)
        return {
            **vars(self.limit),
            "ours": self.limit.ours,
            "ratio": self.ratio,
            "verdict": "goal reached" if reached else word,
        }


def verdicts(results: Mapping[str, Mapping[str, Any]]) -> list[Verdict]:
    """What every limit says to measurements.

    Args:
        results: what ``measure`` gave, by the size of the model.
    """
    return [Verdict(limit, _ratio(results.get(limit.model, {}), limit)) for limit in LIMITS]


def _ratio(result: Mapping[str, Any], limit: Limit) -> float | None:
    ratios = result.get("rows", {}).get(limit.row, {}).get("ratios", {}).get(limit.ours, {})
    if not all(peer in ratios for peer in PEERS):
        return None
    found = [float(ratios[peer]["median"]) for peer in PEERS]
    return min(found) if limit.at_least else max(found)
