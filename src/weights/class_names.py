"""Which classes of two lists are the same."""

import re
from collections import Counter
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
    """Finds each of our classes by name among theirs; nothing is guessed.

    The same name counts first, then the same but for case and punctuation, then synonyms, and each of several names in
    one, as in ``building, edifice``; each as far as it leaves one class on either side.

    Args:
        theirs: classes of the weights.
        ours: classes of the model.
    """
    pairs: dict[int, int] = {}
    found: dict[int, list[int]] = {}
    for called in (_exactly, _plainly, _words):
        left = [place for place in range(len(theirs)) if place not in pairs.values()]
        names = {place: called(theirs, place) for place in left}
        open_ = [place for place in range(len(ours)) if place not in pairs]
        found = {place: [other for other in left if names[other] & called(ours, place)] for place in open_}
        wanted = Counter(other for others in found.values() for other in others)
        pairs |= {place: others[0] for place, others in found.items() if len(others) == 1 and wanted[others[0]] == 1}
    unclear = {
        ours.names[place]: tuple(theirs.names[other] for other in others)
        for place, others in found.items()
        if others and place not in pairs
    }
    return ClassMatch(dict(sorted(pairs.items())), unclear)


def same_names(names: Sequence[str], classes: ClassList) -> bool:
    """Whether names are those of a class list, each in its place, by name or synonym.

    Args:
        names: as many names as there are classes.
        classes: the list.
    """
    return all(_spelled(name) & _words(classes, place) for place, name in enumerate(names))


def _exactly(classes: ClassList, place: int) -> set[str]:
    return {classes.names[place]}


def _plainly(classes: ClassList, place: int) -> set[str]:
    return {_plain(classes.names[place])}


def _words(classes: ClassList, place: int) -> set[str]:
    return set().union(*map(_spelled, (classes.names[place], *classes.synonyms[place])))


def _spelled(name: str) -> set[str]:
    """A name, and each of several in one."""
    return {plain for word in (name, *re.split("[;,]", name)) if (plain := _plain(word))}


def _plain(name: str) -> str:
    return " ".join("".join(letter if letter.isalnum() else " " for letter in name.casefold()).split())
