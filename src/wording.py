"""Words that errors and warnings share."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def listed(things: Sequence[object], shown: int = 5) -> str:
    """The first of several things, and how many more there are.

    Args:
        things: what to list.
        shown: how many to show.
    """
    more = f" and {len(things) - shown} more" if len(things) > shown else ""
    return ", ".join(map(str, things[:shown])) + more


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like one that is not known; where none is like it, what there is.

    Args:
        word: what is not known.
        known: the words that are.
    """
    words = list(known)
    near = get_close_matches(word, words, n=1)
    return f"the nearest is `{near[0]}`" if near else f"there are {listed(words)}"
