"""Which rows of the classifiers go where, when a model has other classes than its weights."""

import re

from torch import Tensor

from src.classes import ClassList
from src.weights.class_names import matched_classes
from src.weights.published import PublishedWeights
from src.wording import listed

_CLASSIFIER = re.compile(r"(decoder|auxiliary)\.conv_seg\.(weight|bias)")


class ClassRows:
    """The rows of the classifiers of decoder and auxiliary head that are carried over.

    Where both lists are known, rows go by name. Where one is not, as many rows go in their order, others not at all.

    Args:
        published: the weights, a segmentor's.
        num_classes: number of the model's outputs.
        ours: classes of the model's outputs; None where they are not known.
        theirs: classes of the weights' outputs; None for what their file says.

    Attributes:
        new_classes: the model's classes that have no row among the weights.
        notes: what a user should know.

    Raises:
        ValueError: a list has another length than the outputs it is of.
    """

    def __init__(
        self, published: PublishedWeights, num_classes: int, ours: ClassList | None, theirs: ClassList | None
    ) -> None:
        self._count = len(published.state["decoder.conv_seg.weight"])
        self._num_classes = num_classes
        self.new_classes: tuple[str, ...] = ()
        self.notes: list[str] = []
        self._rows: dict[int, int] | None = None
        if theirs is not None and len(theirs) != self._count:
            raise ValueError(
                f"model.weights_options.source_classes must name the {self._count} outputs of {published.source}, got "
                f"{len(theirs)}; give the list that it was trained with."
            )
        if ours is not None and len(ours) != num_classes:
            raise ValueError(
                f"classes must name the model's {num_classes} outputs, got {len(ours)} names; give the model's list."
            )
        theirs = theirs or published.classes
        if ours is None or theirs is None or len(theirs) != self._count:
            self._go_without_names(ours)
        else:
            self._go_by_name(ours, theirs)

    @property
    def what(self) -> str:
        """What is done to a classifier, in words."""
        return f"classes {self._count} -> {self._num_classes} ({len(self._rows or ())} by name)"

    def concern(self, name: str) -> bool:
        """Whether a weight is one of a classifier.

        Args:
            name: its name in the model.
        """
        return _CLASSIFIER.fullmatch(name) is not None

    def leave_out(self, name: str) -> bool:
        """Whether a weight is one of a classifier all of whose rows are new.

        Args:
            name: its name in the model.
        """
        return self._rows == {} and self.concern(name)

    def carried(self, value: Tensor, target: Tensor) -> Tensor | None:
        """The model's classifier with the rows that are carried over; None where there is none.

        Args:
            value: the file's, a row for each of its classes.
            target: the model's, a row for each of its own.
        """
        rows = self._rows
        if rows is None or (len(value) == len(target) and rows == {place: place for place in range(len(value))}):
            return value
        if not rows:
            return None
        carried = target.detach().clone()
        carried[list(rows)] = value[list(rows.values())].to(carried)
        return carried

    def _go_by_name(self, ours: ClassList, theirs: ClassList) -> None:
        match = matched_classes(theirs, ours)
        self._rows = match.pairs
        self.new_classes = tuple(name for place, name in enumerate(ours.names) if place not in match.pairs)
        for name, others in match.unclear.items():
            self.notes.append(f"class {name} could be {' or '.join(others)}: not guessed, so it is new")
        unused = [name for place, name in enumerate(theirs.names) if place not in match.pairs.values()]
        if self.new_classes and unused:
            self.notes.append(f"classes of the weights without a partner: {listed(unused, 10)}")

    def _go_without_names(self, ours: ClassList | None) -> None:
        lack = "the model's classes are not known" if ours is None else "the file names no classes"
        if self._count == self._num_classes:
            if ours is not None:
                self.notes.append(f"{lack}: its {self._count} were taken for the model's in their order")
            return
        self._rows = {}
        self.new_classes = ours.names if ours is not None else tuple(map(str, range(self._num_classes)))
        self.notes.append(
            f"{lack}, so none of its {self._count} classes was carried over; model.weights_options.source_classes "
            f"names them"
        )
