"""What a layout of weights is: a table of their names beside ours, read in either direction.

Our names are those of a ``Segmenter``'s state dict (``encoder.``, ``decoder.``, ``auxiliary.``); what an image
classifier has besides stands under ``classifier.norm`` and ``classifier.head``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor

from src.download.address import printable

State = dict[str, Tensor]
"""Tensors by name."""

Kind = Literal["classifier", "encoder", "segmentor"]
"""What a file holds: an image classifier, an encoder alone, or an encoder with decoder and auxiliary head."""

Names = str | tuple[str, ...]
"""A name with places in it, or several whose tensors belong together."""

Translation = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""What gives tensors from tensors."""

_SUFFIXES = r"(|\.weight|\.bias|\.running_mean|\.running_var|\.num_batches_tracked)"
_PLACE = re.compile(r"\{(?:(?P<factor>\d*)(?P<letter>[a-z])(?:\+(?P<plus>\d+))?|(?P<minus>\d+)-(?P<down>[a-z])|\*)\}")


class Change(NamedTuple):
    """What happens to the tensors of a row on their way, beside the new names.

    Attributes:
        to_ours: their tensors in the row's order, to ours.
        to_theirs: the way back.
    """

    to_ours: Translation
    to_theirs: Translation


def _unchanged(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    return tensors


SAME = Change(_unchanged, _unchanged)


class Row(NamedTuple):
    """One line of a table.

    ``{i}`` stands for a number, the same in both names; ``{i+1}``, ``{2i+1}`` and ``{2-i}`` for what follows from it;
    ``{*}`` for anything. A name may go without its end, ``.weight``, ``.bias`` or a BatchNorm's statistics, which is
    then the same on both sides.

    Attributes:
        theirs: their name, or several whose tensors become ours together.
        ours: our name, or several.
        change: what happens to the tensors.
    """

    theirs: Names
    ours: Names
    change: Change = SAME


def same(*names: str) -> tuple[Row, ...]:
    """Rows of what has the same name on both sides.

    Args:
        *names: the names.
    """
    return tuple(Row(name, name) for name in names)


@dataclass(frozen=True)
class Layout:
    """A layout that weights are published in.

    In ``rest``, ``marks`` and ``absent`` names are whole; ``{root}`` in them stands for the encoder's root.

    Args:
        name: how it is told in a report and asked for in a conversion.
        encoder: the encoder's table. ``theirs`` stands below a root, ``ours`` below ``encoder.``.
        rest: the table of everything else.
        roots: what stands before the encoder's names in each kind of file; a kind that is not there does not occur.
        marks: names that every file of the layout has; the first is of an encoder weight.
        absent: names that no file of the layout has.
        further_roots: roots that occur in files, but are not written.
        dropped: patterns of their names whose values follow from the rest: indices, masks, coordinates.
        version: 1 or 2 where the layout holds that version of Swin only; None: both.
        is_alias: read, but never written: another layout of this name is.
    """

    name: str
    encoder: tuple[Row, ...]
    rest: tuple[Row, ...]
    roots: Mapping[Kind, str]
    marks: tuple[str, ...]
    absent: tuple[str, ...] = ()
    further_roots: tuple[str, ...] = ()
    dropped: tuple[str, ...] = (r"relative_position_index$", r"attn_mask$", r"relative_coords_table$")
    version: int | None = None
    is_alias: bool = False

    def rows(self, root: str) -> tuple[Row, ...]:
        """The whole table.

        Args:
            root: what stands before the encoder's names.
        """
        below = (Row(_each(root, row.theirs), _each("encoder.", row.ours), row.change) for row in self.encoder)
        return (*below, *(Row(_rooted(root, row.theirs), row.ours, row.change) for row in self.rest))

    def to_ours(self, state: State, root: str) -> tuple[State, list[str]]:
        """Their tensors under our names.

        Args:
            state: tensors under their names.
            root: what stands before the encoder's names.

        Returns:
            Our tensors, and their names for which the table has no row, without those that follow from the rest.

        Raises:
            ValueError: a tensor is not of the shape that its row needs.
        """
        kept = {name: value for name, value in state.items() if not any(re.search(p, name) for p in self.dropped)}
        return _translated(kept, [(row.theirs, row.ours, row.change.to_ours) for row in self.rows(root)])

    def to_theirs(self, state: State, kind: Kind) -> tuple[State, list[str]]:
        """Our tensors under their names, without those that follow from the rest.

        Args:
            state: tensors under our names.
            kind: what is written.

        Returns:
            Their tensors, and our names for which the table has no row.

        Raises:
            ValueError: a tensor is not of the shape that its row needs.
        """
        rows = self.rows(self.roots[kind])
        return _translated(state, [(row.ours, row.theirs, row.change.to_theirs) for row in rows])


def _each(before: str, names: Names) -> tuple[str, ...]:
    return tuple(before + name for name in _as_tuple(names))


def _rooted(root: str, names: Names) -> tuple[str, ...]:
    return tuple(name.replace("{root}", root) for name in _as_tuple(names))


def _as_tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _pattern(template: str) -> str:
    """A template as a regular expression whose group ``p0`` is its first place."""
    parts, end = [], 0
    for number, place in enumerate(_PLACE.finditer(template)):
        parts.append(re.escape(template[end : place.start()]))
        parts.append(f"(?P<p{number}>{'.+' if place[0] == '{*}' else '[0-9]{1,9}'})")
        end = place.end()
    return "".join(parts) + re.escape(template[end:])


def _translated(state: State, ways: Sequence[tuple[Names, Names, Translation]]) -> tuple[State, list[str]]:
    """Tensors under new names, in the order of the old ones.

    A name goes the first way whose old names are all there and whose new names nothing has taken.
    """
    readers = [(_Names(_as_tuple(old)), _Names(_as_tuple(new)), change) for old, new, change in ways]
    new_state: State = {}
    taken: set[str] = set()
    for name in state:
        for old, new, change in readers if name not in taken else ():
            if (meaning := old.read(name)) is None:
                continue
            names, new_names = old.write(meaning), new.write(meaning)
            if all(other in state for other in names) and not any(other in new_state for other in new_names):
                taken.update(names)
                new_state |= zip(new_names, _changed(names, [state[other] for other in names], change), strict=True)
                break
    return new_state, [name for name in state if name not in taken]


def _changed(names: Sequence[str], tensors: Sequence[Tensor], change: Translation) -> Sequence[Tensor]:
    try:
        if change is not _unchanged and not all(tensor.ndim and tensor.numel() for tensor in tensors):
            raise ValueError("be of one axis or more, none of them empty")
        return change(tensors)
    except ValueError as error:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ValueError(f"{printable(' and '.join(names))} must {error}, got {shapes}") from error


@dataclass(frozen=True)
class _Names:
    """The names on one side of a row."""

    templates: tuple[str, ...]
    _pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", re.compile(f"{_pattern(self.templates[0])}(?P<end>{_SUFFIXES})"))

    def read(self, name: str) -> dict[str, int | str] | None:
        """What the places of the first name stand for in ``name``; None where it is another name."""
        if not (match := self._pattern.fullmatch(name)):
            return None
        meaning: dict[str, int | str] = {"end": match["end"]}
        for number, place in enumerate(_PLACE.finditer(self.templates[0])):
            letter, value = _solved(place, match[f"p{number}"])
            if value is None or meaning.setdefault(letter, value) != value:
                return None
        return meaning

    def write(self, meaning: Mapping[str, int | str]) -> list[str]:
        return [
            _PLACE.sub(lambda place: _filled(place, meaning), name) + str(meaning["end"]) for name in self.templates
        ]


def _solved(place: re.Match[str], text: str) -> tuple[str, int | str | None]:
    """The letter of a place and what it is where the place reads ``text``; None where no number gives that."""
    if place[0] == "{*}":
        return "*", text
    if place["down"]:
        value = int(place["minus"]) - int(text)
        return place["down"], value if value >= 0 else None
    value, rest = divmod(int(text) - int(place["plus"] or 0), int(place["factor"] or 1))
    return place["letter"], value if value >= 0 and rest == 0 else None


def _filled(place: re.Match[str], meaning: Mapping[str, int | str]) -> str:
    if place[0] == "{*}":
        return str(meaning["*"])
    if place["down"]:
        return str(int(place["minus"]) - int(meaning[place["down"]]))
    return str(int(meaning[place["letter"]]) * int(place["factor"] or 1) + int(place["plus"] or 0))


def prefixes(names: Sequence[str], layout: Layout) -> Iterator[tuple[str, str]]:
    """Where in a file the weights of a layout may stand: what is before all names, and the root of the encoder's.

    Args:
        names: all names in the file.
        layout: the layout.
    """
    roots = sorted({*layout.roots.values(), *layout.further_roots}, key=len, reverse=True)
    found: set[str] = set()
    for root in roots:
        first, *others = _rooted(root, layout.marks)
        absent = _rooted(root, layout.absent)
        mark = re.compile(rf"(?P<before>(?:.+?\.)??){_pattern(first)}")
        for before in dict.fromkeys(match["before"] for name in names if (match := mark.fullmatch(name))):
            if before + root in found or not all(_holds(names, before, other) for other in others):
                continue
            if not any(_holds(names, before, other) for other in absent):
                found.add(before + root)
                yield before, root


def _holds(names: Sequence[str], before: str, template: str) -> bool:
    pattern = re.compile(re.escape(before) + _pattern(template))
    return any(pattern.fullmatch(name) for name in names)
