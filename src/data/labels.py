"""From the values in a mask file to the indices of classes."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np

from src.classes import LARGEST_ID, ClassList
from src.data.batch import IGNORE_INDEX
from src.data.byte_tables import looked_up
from src.wording import nearest

_UNKNOWN = -1
_SHOWN = 10


class LabelEncoder:
    """Turns stored values into class indices ``0..K-1``, and ignored ones into 255.

    Args:
        classes: the classes; their ids are the stored values.
        ignored_ids: stored values without a class; None means 255, unless that is the id of a class or mapped.
        reduce_zero_label: the files hold every id plus one, and 0 where there is no label.
        mapping: what further stored values stand for, or other ones than their own: the id or the name of a class, or
            None where there is no label. Each value is looked up once, so ``{1: 2, 2: 1}`` is a swap.

    Attributes:
        classes: the classes that remain, with the stored values as their ids.
        ignored_ids: the stored values that become 255.
        indices: the class index of every other stored value that may occur.
        reduce_zero_label: as given.
        dropped: names of the classes that left the list since their id is ignored, by that id.
        key: the option that gives the data set, with dots, for errors.

    Raises:
        ValueError: more than 255 classes remain, or fewer than 2; or ``mapping`` is out of range, names no class, maps
            what is ignored, or is given with ``reduce_zero_label``.
    """

    def __init__(
        self,
        classes: ClassList,
        ignored_ids: Collection[int] | None = None,
        reduce_zero_label: bool = False,
        mapping: Mapping[int, int | str | None] | None = None,
    ) -> None:
        mapping = mapping or {}
        for option, values in (("data.ignored_ids", ignored_ids or ()), ("data.mapping", mapping)):
            for value in values:
                if not 0 <= value <= LARGEST_ID:
                    raise ValueError(f"{option} must be in 0..{LARGEST_ID}, got {value}; give values of the files.")
        if reduce_zero_label and mapping:
            raise ValueError(
                "data.mapping and data.reduce_zero_label must not be given together; say it all with data.mapping, "
                'for example "{0: null, 1: wall, 2: floor}".'
            )
        if both := sorted({value for value, target in mapping.items() if target is not None} & {*(ignored_ids or ())}):
            raise ValueError(f"data.mapping must leave out data.ignored_ids, got {both} in both; remove it from one.")
        if reduce_zero_label:
            classes = replace(classes, ids=tuple(class_id + 1 for class_id in classes.ids))
        if ignored_ids is None:
            ignored_ids = () if IGNORE_INDEX in {*classes.ids, *mapping} else (IGNORE_INDEX,)
        elif reduce_zero_label:
            ignored_ids = [value if value == IGNORE_INDEX else value + 1 for value in ignored_ids]
        ignored = {*ignored_ids, *((0,) if reduce_zero_label else ())}
        self.reduce_zero_label = reduce_zero_label
        self.classes = classes.without(ignored)
        self.dropped = {value: name for value, name in zip(classes.ids, classes.names, strict=True) if value in ignored}
        if not 2 <= len(self.classes) <= IGNORE_INDEX:
            raise ValueError(
                f"data.classes must leave 2 to {IGNORE_INDEX} classes, since one class leaves nothing to learn and "
                f"{IGNORE_INDEX} stands for unlabelled pixels, got {len(self.classes)}; correct data.classes "
                f"(for example add `0 background`) or data.ignored_ids."
            )
        targets = {value: _index(self.classes, value, target) for value, target in mapping.items()}
        meanings = {class_id: index for index, class_id in enumerate(self.classes.ids)} | targets
        self.ignored_ids = tuple(sorted(ignored | {value for value, index in targets.items() if index is None}))
        self.indices = {value: index for value, index in meanings.items() if index is not None}
        self.key = "data"
        self._fill_table()

    def _fill_table(self) -> None:
        self._table = np.full(max(256, *self.indices, *self.ignored_ids) + 2, _UNKNOWN, np.int16)
        self._table[list(self.ignored_ids)] = IGNORE_INDEX
        self._table[list(self.indices)] = list(self.indices.values())
        unknown = self._table[:256] == _UNKNOWN
        self._unknown_bytes = unknown.astype(np.uint8)
        self._first_unknown_byte = int(np.append(unknown, True).argmax())
        self._byte_table = np.where(unknown, IGNORE_INDEX, self._table[:256]).astype(np.uint8)

    def translated(self, targets: Sequence[int], key: str) -> "LabelEncoder":
        """An encoder of the same stored values whose indices are those of another list of classes.

        Args:
            targets: for each class of this list its index in the other, or 255.
            key: the option that gives the data set, with dots.
        """
        other = copy(self)
        other.key = key
        other.indices = {v: targets[index] for v, index in self.indices.items() if targets[index] != IGNORE_INDEX}
        other.ignored_ids = tuple(sorted({*self.ignored_ids, *(self.indices.keys() - other.indices.keys())}))
        other._fill_table()
        return other

    def __call__(self, stored: np.ndarray, path: str | Path) -> np.ndarray:
        """Class indices ``(H, W)`` uint8, 255 where there is no label.

        Args:
            stored: values in the file ``(H, W)``, of any integer type.
            path: the file, for errors.

        Raises:
            ValueError: a value is neither the id of a class nor ignored, or not a whole number.
        """
        if stored.dtype.kind not in "bui":
            raise ValueError(f"mask must hold whole numbers, got {stored.dtype} in {path}; export it as class ids.")
        if stored.dtype == np.uint8 and stored.size and self._knows_all(stored):
            return looked_up(stored, [self._byte_table])
        last = len(self._table) - 1
        indices = self._table[
            stored if stored.dtype == np.uint8 else np.where(stored < 0, last, np.minimum(stored, last))
        ]
        if (indices == _UNKNOWN).any():
            values, counts = np.unique(stored[indices == _UNKNOWN], return_counts=True)
            shown = ", ".join(f"{value} ({count} pixels)" for value, count in zip(values, counts, strict=True))
            raise ValueError(
                f"mask must hold {self.allowed}, got {shown if len(values) <= _SHOWN else shortened(values)} in "
                f"{path}; add the values to {self.options}."
            )
        return indices.astype(np.uint8)

    def _knows_all(self, stored: np.ndarray) -> bool:
        """Whether every value of a mask of bytes has a meaning; the largest alone often tells."""
        if int(stored.max()) < self._first_unknown_byte:
            return True
        return not looked_up(stored, [self._unknown_bytes]).any()

    @property
    def allowed(self) -> str:
        """The values that may occur, in words."""
        mapped = sorted(self.indices.keys() - {*self.classes.ids})
        return (
            f"ids of {self.key}.classes ({shortened(self.classes.ids)})"
            f"{f', of {self.key}.mapping ({shortened(mapped)})' if mapped else ''} or of {self.key}.ignored_ids "
            f"({shortened(self.ignored_ids)})"
        )

    @property
    def options(self) -> str:
        """The options that could say what further values mean, in words."""
        mapping = "" if self.reduce_zero_label else f", {self.key}.mapping"
        return f"{self.key}.classes{mapping} or {self.key}.ignored_ids"

    def as_mapped(self, value: int, class_id: int) -> str:
        """The options that make a value stand for a class, as they are typed.

        Args:
            value: in the files.
            class_id: of the class, as in the file of classes.
        """
        undo = f"--{self.key}.reduce_zero_label false " if self.reduce_zero_label else ""
        return f'{undo}--{self.key}.mapping "{{{value}: {class_id}}}"'


def _index(classes: ClassList, value: int, target: int | str | None) -> int | None:
    """Place of the class that ``target`` names, by name before id."""
    if isinstance(target, str):
        target = unicodedata.normalize("NFC", target)
    for known in (classes.names, classes.ids):
        if target in known:
            return known.index(target)
    if target is None:
        return None
    raise ValueError(
        f"data.mapping must give the id or the name of a class, or null, got {value}: {target}; ids are "
        f"{shortened(classes.ids)}; of the names {nearest(str(target), classes.names)}."
    )


def shortened(values: Collection[int]) -> str:
    """Numbers in words: all of a few, ``0..149`` for a range, else the first and the last.

    Args:
        values: the numbers.
    """
    ordered = sorted(int(value) for value in values)
    if len(ordered) > _SHOWN and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}..{ordered[-1]}"
    return ", ".join(map(str, ordered[:_SHOWN])) + (f", ... {ordered[-1]}" if len(ordered) > _SHOWN else "") or "none"
