"""From the values in a mask file to the indices of classes."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from src.classes import LARGEST_ID, ClassList
from src.data.batch import IGNORE_INDEX

_UNKNOWN = -1
_SHOWN = 10


class LabelEncoder:
    """Turns stored values into class indices ``0..K-1``, and ignored ones into 255.

    Args:
        classes: the classes; their ids are the stored values.
        ignored_ids: stored values without a class; None means 255, unless that is the id of a class.
        reduce_zero_label: the files hold every id plus one, and 0 where there is no label.

    Attributes:
        classes: the classes that remain, with the stored values as their ids.
        ignored_ids: the stored values that become 255.

    Raises:
        ValueError: more than 255 classes remain, or fewer than 2.
    """

    def __init__(
        self, classes: ClassList, ignored_ids: Collection[int] | None = None, reduce_zero_label: bool = False
    ) -> None:
        for value in ignored_ids or ():
            if not 0 <= value <= LARGEST_ID:
                raise ValueError(f"data.ignored_ids must be in 0..{LARGEST_ID}, got {value}; give values of the files.")
        if reduce_zero_label:
            classes = replace(classes, ids=tuple(class_id + 1 for class_id in classes.ids))
        if ignored_ids is None:
            ignored_ids = () if IGNORE_INDEX in classes.ids else (IGNORE_INDEX,)
        elif reduce_zero_label:
            ignored_ids = [value if value == IGNORE_INDEX else value + 1 for value in ignored_ids]
        self.ignored_ids = tuple(sorted({*ignored_ids, *((0,) if reduce_zero_label else ())}))
        self.classes = classes.without(self.ignored_ids)
        if not 2 <= len(self.classes) <= IGNORE_INDEX:
            raise ValueError(
                f"data.classes must leave 2 to {IGNORE_INDEX} classes, since one class leaves nothing to learn and "
                f"{IGNORE_INDEX} stands for unlabelled pixels, got {len(self.classes)}; correct data.classes "
                f"(for example add `0 background`) or data.ignored_ids."
            )
        self._table = np.full(max(256, *self.classes.ids, *self.ignored_ids) + 2, _UNKNOWN, np.int16)
        self._table[list(self.ignored_ids)] = IGNORE_INDEX
        self._table[list(self.classes.ids)] = np.arange(len(self.classes))

    def __call__(self, stored: np.ndarray, path: str | Path) -> np.ndarray:
        """Class indices ``(H, W)`` uint8, 255 where there is no label.

        Args:
            stored: values in the file ``(H, W)``, of any integer type.
            path: the file, for errors.

        Raises:
            ValueError: a value is neither the id of a class nor ignored.
        """
        last = len(self._table) - 1
        indices = self._table[
            stored if stored.dtype == np.uint8 else np.where(stored < 0, last, np.minimum(stored, last))
        ]
        if (indices == _UNKNOWN).any():
            values, counts = np.unique(stored[indices == _UNKNOWN], return_counts=True)
            shown = ", ".join(f"{value} ({count} pixels)" for value, count in zip(values, counts, strict=True))
            raise ValueError(
                f"mask must hold ids of data.classes ({_shortened(self.classes.ids)}) or of data.ignored_ids "
                f"({_shortened(self.ignored_ids)}), got {shown if len(values) <= _SHOWN else _shortened(values)} in "
                f"{path}; add the values to data.classes or to data.ignored_ids."
            )
        return indices.astype(np.uint8)


def _shortened(values: Collection[int]) -> str:
    ordered = sorted(int(value) for value in values)
    if len(ordered) > _SHOWN and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}..{ordered[-1]}"
    return ", ".join(map(str, ordered[:_SHOWN])) + (f", ... {ordered[-1]}" if len(ordered) > _SHOWN else "") or "none"
