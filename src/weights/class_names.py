"""Which classes of two lists are the same."""

from collections.abc import Sequence
from typing import NamedTuple

from src.classes import ClassList


class ClassMatch(NamedTuple):
    """How the classes of a model are found among those of weights.

    Attributes:
        pairs: place among the weights' classes for each place among the model's that has one.
        unclear: the model's classes whose names stand for several of the weights', with these.
    """

    pairs: dict[int, int]
    unclear: dict[str, tuple[str, ...]]


def matched_classes(theirs: ClassList, ours: ClassList) -> ClassMatch:
    """Finds each of our classes by name among theirs, case and punctuation aside; nothing is guessed.

    A name that both lists give to a class counts first. Then synonyms do, where they leave one class on either side.

    Args:
        theirs: classes of the weights.
        ours: classes of the model.
    """
    by_name = {_plain(name): place for place, name in reversed(list(enumerate(theirs.names)))}
    pairs = {place: by_name[_plain(name)] for place, name in enumerate(ours.names) if _plain(name) in by_name}
    words = [_words(theirs, place) for place in range(len(theirs))]
    left = [place for place in range(len(theirs)) if place not in pairs.values()]
    found = {
        place: [other for other in left if words[other] & _words(ours, place)]
        for place in range(len(ours))
        if place not in pairs
    }
    unclear: dict[str, tuple[str, ...]] = {}
    for place, others in found.items():
        rivals = [rival for rival, wanted in found.items() if rival != place and set(wanted) & set(others)]
        if len(others) == 1 and not rivals:
            pairs[place] = others[0]
        elif others:
            unclear[ours.names[place]] = tuple(theirs.names[other] for other in others)
    return ClassMatch(dict(sorted(pairs.items())), unclear)


def same_names(names: Sequence[str], classes: ClassList) -> bool:
    """Whether names are those of a class list, each in its place, by name or synonym.

    Args:
        names: as many names as there are classes.
        classes: the list.
    """
    return all(_plain(name) in _words(classes, place) for place, name in enumerate(names))


def _words(classes: ClassList, place: int) -> set[str]:
    return {_plain(name) for name in (classes.names[place], *classes.synonyms[place])}


def _plain(name: str) -> str:
    return " ".join("".join(letter if letter.isalnum() else " " for letter in name.casefold()).split())
