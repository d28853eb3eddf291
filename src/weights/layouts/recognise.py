"""Which layout a file of weights has, from its names alone."""

from collections.abc import Sequence
from typing import NamedTuple

from src.download.address import printable
from src.weights.layouts import LAYOUTS
from src.weights.layouts.layout import Kind, Layout, State, prefixes
from src.wording import listed

_SHOWN = 2


class Recognised(NamedTuple):
    """Where weights of a layout stand in a file.

    Attributes:
        layout: their layout.
        prefix: what stands before all names of the model.
        root: what stands before the encoder's names, after the prefix.
    """

    layout: Layout
    prefix: str
    root: str

    @property
    def place(self) -> str:
        """What stands before the encoder's names in the file."""
        return self.prefix + self.root


def recognise(names: Sequence[str], prefix: str | None = None) -> Recognised:
    """The layout of a file and the place of its weights.

    Args:
        names: all names in the file.
        prefix: what stands before the names of the model, or of its encoder, where a file holds several; None: it
            must hold one.

    Raises:
        ValueError: no layout is known there, or several models are and ``prefix`` does not tell which is meant.
    """
    found = _places(names)
    if not found:
        raise ValueError(_unknown(names))
    places = [f"`{printable(each.place)}` ({each.layout.name})" for each in found]
    if prefix is not None:
        wanted = prefix if prefix == "" or prefix.endswith(".") else f"{prefix}."
        chosen = [each for each in found if wanted == each.place] or [each for each in found if wanted == each.prefix]
        if len(chosen) != 1:
            raise ValueError(
                f"prefix must be what stands before the names of one model in the file, got "
                f"`{printable(prefix)}`; there are {listed(places)}."
            )
        return chosen[0]
    if len(found) > 1:
        raise ValueError(
            f"the weights must be of one model, got several in one file, below {listed(places)}; give the one that is "
            f"meant as `prefix`."
        )
    return found[0]


def _places(names: Sequence[str]) -> list[Recognised]:
    found: list[Recognised] = []
    for layout in LAYOUTS:
        others = [each.place for each in found]
        for prefix, root in prefixes(names, layout):
            if not any(_same_weights(prefix + root, other) for other in others):
                found.append(Recognised(layout, prefix, root))
    return found


def _same_weights(place: str, other: str) -> bool:
    """Whether one place is within the other; the whole file counts as a place of its own."""
    return place == other or (place != "" != other and (place.startswith(other) or other.startswith(place)))


def _unknown(names: Sequence[str]) -> str:
    known: dict[str, str] = {}
    for layout in LAYOUTS:
        *_, root = layout.roots.values()
        marks = [mark.replace("{root}", root).replace("{i}", "0").replace("{j}", "0") for mark in layout.marks]
        known.setdefault(layout.name, ", ".join(marks[:_SHOWN]).replace("{*}", "relative_position_bias_table"))
    told = "; ".join(f"{name}: {marks}" for name, marks in known.items())
    return (
        f"the weights must have the names of a known layout, got "
        f"{printable(listed(names, _SHOWN)) or 'none'}; give a file of one of these layouts ({told})."
    )


def kind_of(state: State) -> Kind:
    """What weights are of.

    Args:
        state: tensors under our names.
    """
    if any(name.startswith("decoder.") for name in state):
        return "segmentor"
    return "classifier" if any(name.startswith("classifier.head.") for name in state) else "encoder"


def layout_named(name: str, kind: Kind, version: int | None = None) -> Layout:
    """The layout of a name in which weights are written.

    Args:
        name: its name.
        kind: what is written.
        version: of Swin, 1 or 2; None where the encoder is another one.

    Raises:
        ValueError: there is none of that name, or it does not hold such weights.
    """
    named = [layout for layout in LAYOUTS if layout.name == name and not layout.is_alias]
    if not named:
        names = list(dict.fromkeys(layout.name for layout in LAYOUTS))
        raise ValueError(f"layout must be one of {listed(names, len(names))}, got {name!r}; take one of these.")
    fitting = [layout for layout in named if layout.version in (None, version) and kind in layout.roots]
    if not fitting:
        held = dict.fromkeys((each, layout.version) for layout in named for each in layout.roots)
        told = [each if own is None else f"{each} (version {own})" for each, own in held]
        raise ValueError(
            f"layout must hold the weights that are written, got {name!r} for a {kind}"
            f"{f' (version {version})' if version else ''}; it holds {listed(told)}: take another layout."
        )
    return fitting[0]
