"""What loading weights did, to be read by a person."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from src.wording import listed

_IN_WORDS = {"classifier.norm": "the norm behind the last stage", "classifier.head": "the image classifier"}
_SHOWN = 4
_WIDTH = 12


@dataclass(frozen=True)
class Adaptation:
    """A weight that was changed to fit the model.

    Args:
        name: its name in the model.
        what: from what to what, and how.
    """

    name: str
    what: str


@dataclass(frozen=True)
class WeightsReport:
    """What ``load_weights`` did.

    Args:
        source: where the weights came from, as the user named it.
        layout: name of their layout, with the kind of file and the version of Swin.
        loaded: names of the model's weights that were filled, adapted ones included.
        promised: names of the model's weights that a file of this layout and kind fills.
        adapted: those that were changed to fit.
        new: names of the model's weights that keep their initial values.
        new_classes: the model's classes whose rows of the classifiers keep their initial values.
        left_over: weights of the file that the model has no place for: our names where the layout knows them, else its.
        notes: what else a user should know.
    """

    source: str
    layout: str
    loaded: tuple[str, ...]
    promised: tuple[str, ...]
    adapted: tuple[Adaptation, ...] = ()
    new: tuple[str, ...] = ()
    new_classes: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What the layout promises and the file did not fill."""
        loaded = set(self.loaded)
        return tuple(name for name in self.promised if name not in loaded)

    @property
    def coverage(self) -> float:
        """Share of the promised weights that were filled, 0..1."""
        return 1 - len(self.missing) / len(self.promised) if self.promised else 0.0

    def __str__(self) -> str:
        lines = [
            f"weights: {self.source}",
            _row("layout", self.layout),
            _row("loaded", f"{_by_part(self.loaded, self.promised)} ({self.coverage:.0%} of what the layout promises)"),
        ]
        whats = Counter(what for what, _ in {(one.what, one.name.rpartition(".")[0]): None for one in self.adapted})
        lines += [_row("adapted", f"{what}{f', {count} times' if count > 1 else ''}") for what, count in whats.items()]
        if self.new or self.new_classes:
            lines.append(_row("new", "; ".join([*_new_classes(self.new_classes), *_grouped(self.new)])))
        if self.left_over:
            lines.append(_row("left over", "; ".join(_grouped(self.left_over))))
        return "\n".join([*lines, *(_row("note", note) for note in self.notes)])


def _row(title: str, text: str) -> str:
    return f"  {title:<{_WIDTH}}{text}"


def _new_classes(names: Sequence[str]) -> list[str]:
    return [f"{len(names)} class{'es' if len(names) > 1 else ''} ({listed(names)})"] if names else []


def _by_part(loaded: Iterable[str], promised: Iterable[str]) -> str:
    wanted = Counter(name.partition(".")[0] for name in promised)
    filled = Counter(name.partition(".")[0] for name in set(promised) & set(loaded))
    return ", ".join(f"{part} {filled[part]} of {count}" for part, count in wanted.items())


def _grouped(names: Iterable[str]) -> list[str]:
    """Names that differ in numbers and ends alone, as one with their count."""
    groups: Counter[str] = Counter()
    for name in names:
        stem = re.sub(r"\.(weight|bias|running_mean|running_var|num_batches_tracked)$", "", name)
        groups[_IN_WORDS.get(stem) or re.sub(r"\d+(?=\.|$)", "*", stem)] += 1
    shown = [f"{name} ({count})" if count > 1 else name for name, count in groups.most_common()]
    return [*shown[:_SHOWN], f"{len(shown) - _SHOWN} more kinds"] if len(shown) > _SHOWN else shown
