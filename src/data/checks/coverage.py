"""Classes without a pixel, and masks without labels: a run would learn less than it seems to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from src.classes import ClassList
from src.data.batch import IGNORE_INDEX
from src.data.checks.facts import Scan
from src.data.checks.finding import Finding, percent
from src.data.source import Source
from src.wording import listed

_LARGEST_IGNORED = 0.95


@dataclass(frozen=True)
class _Labels:
    """How many pixels the masks of a scan have of each class, and of each stored value that is ignored."""

    scan: Scan
    sources: Sequence[Source]
    classes: ClassList
    by_class: Counter[int] = field(default_factory=Counter)
    ignored: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for mask in self.scan.masks:
            encoder = self.sources[mask.source].encoder
            for value, count in mask.pixels.items():
                if encoder is not None and value in encoder.indices:
                    self.by_class[encoder.indices[value]] += count
                else:
                    self.ignored[value] += count

    @property
    def total(self) -> int:
        return self.by_class.total() + self.ignored.total()

    def missing(self) -> list[int]:
        return [index for index in range(len(self.classes)) if not self.by_class[index]]

    def names(self, indices: Iterable[int]) -> str:
        return listed([self.classes.names[index] for index in indices])

    def reachable(self) -> set[int]:
        return {index for source in self.sources if source.encoder for index in source.encoder.indices.values()}


def labelled_classes(scan: Scan, sources: Sequence[Source], classes: ClassList) -> Iterator[Finding]:
    """What of the classes occurs, and how much is left out.

    Args:
        scan: masks of one split, with known values only.
        sources: what values mean; each mask says which of them is its own.
        classes: the classes of the run.
    """
    labels = _Labels(scan, sources, classes)
    trains = scan.split == "training"
    if not labels.total:
        return
    if len(labels.by_class) < (1 if scan.split == "validation" else 2):
        yield _too_few(labels)
    else:
        yield from _mostly_ignored(labels)
        yield from _unseen(labels) if trains else ()
        yield from _unscored(labels) if scan.split == "scored" else ()
    if trains and (lost := set(range(len(classes))) - labels.reachable()):
        yield Finding(
            "warning",
            f"no value in a mask stands for {labels.names(sorted(lost))}, which the model cannot learn then; correct "
            f"data.mapping or take such classes out of data.classes.",
        )


def _too_few(labels: _Labels) -> Finding:
    scan, missing = labels.scan, labels.missing()
    hint = _shifted(labels) or _ignored_class(labels)
    hint = hint or f"{percent(labels.ignored.total(), labels.total)} of the pixels are ignored."
    return Finding(
        "error" if scan.complete and scan.split == "training" else "warning",
        f"no class{f' but {labels.names(labels.by_class)}' if labels.by_class else ''} occurs in {scan.looked_at}, so "
        f"that there is nothing to learn or to score: {labels.names(missing)} never "
        f"occur{'s' if len(missing) == 1 else ''}. {hint} Correct data.classes or the masks; --data.check off goes "
        f"on all the same.",
    )


def _ignored_class(labels: _Labels) -> str:
    """Whether 255 is being ignored, and may be meant for a class whose own id does not occur."""
    encoder = labels.sources[0].encoder
    if encoder is None or not labels.ignored[IGNORE_INDEX]:
        return ""
    ids = [class_id - encoder.reduce_zero_label for class_id in labels.classes.ids]  # as in data.classes
    absent = next((index for index in labels.missing() if ids[index] not in labels.ignored), None)
    if absent is None:
        return ""
    alone = len(labels.sources) == 1 and encoder.key == "data"
    remedy = f"give {encoder.as_mapped(255, ids[absent])}" if alone else "say so in its part's `mapping`"
    share = percent(labels.ignored[IGNORE_INDEX], labels.total)
    return f"255 ({share} of pixels) is being ignored: if it stands for {labels.names([absent])}, {remedy}."


def _mostly_ignored(labels: _Labels) -> Iterator[Finding]:
    ignored = labels.ignored.total()
    if ignored > _LARGEST_IGNORED * labels.total:
        shares = [f"{value}: {percent(count, labels.total)}" for value, count in labels.ignored.most_common()]
        yield Finding(
            "warning",
            f"{percent(ignored, labels.total)} of the pixels are ignored in {labels.scan.looked_at} "
            f"({listed(shares)}); look at data.ignored_ids, data.mapping and the masks.",
        )


def _unseen(labels: _Labels) -> Iterator[Finding]:
    unseen = [index for index in labels.missing() if index in labels.reachable()]
    if not unseen:
        return
    which = f"{len(unseen)} of {len(labels.classes)} classes ({labels.names(unseen)})"
    shifted = _shifted(labels)
    if labels.scan.complete or shifted:
        yield Finding(
            "warning",
            f"{which} never occur in {labels.scan.looked_at}, so the model does not learn them. "
            f"{shifted or 'Correct data.classes or data.mapping, or add images of them.'}",
        )
    else:
        yield Finding(
            "note",
            f"{which} do not occur in {labels.scan.looked_at}, which may be chance; --data.check full looks at all.",
        )


def _unscored(labels: _Labels) -> Iterator[Finding]:
    if labels.missing() and (hint := _ignored_class(labels)):
        which = labels.names(labels.missing())
        yield Finding("warning", f"no pixel of {which} is scored in {labels.scan.looked_at}. {hint}")


def _shifted(labels: _Labels) -> str:
    """Whether ids that begin at 0 were taken for ids that begin at 1: 0 occurs, and the last class alone does not."""
    reduced = all(source.encoder is not None and source.encoder.reduce_zero_label for source in labels.sources)
    if not reduced or labels.missing() != [len(labels.classes) - 1] or not labels.ignored[0]:
        return ""
    return (
        f"data.reduce_zero_label leaves out 0 ({percent(labels.ignored[0], labels.total)} of pixels) and takes 1 off "
        f"every other value; if 0 is a class, set --data.reduce_zero_label false."
    )


def dropped_classes(sources: Sequence[Source]) -> Iterator[Finding]:
    """A warning where 255 is both the id of a class and ignored, which may be habit.

    Args:
        sources: what values mean.
    """
    for source in sources:
        if source.encoder is not None and IGNORE_INDEX in source.encoder.dropped:
            name = source.encoder.dropped[IGNORE_INDEX]
            yield Finding(
                "warning",
                f"class `{name}` of id 255 is left out, since data.ignored_ids holds 255; take 255 out of "
                f"data.ignored_ids if it is a class, or `{name}` out of data.classes if it is none.",
            )
