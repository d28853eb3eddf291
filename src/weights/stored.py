"""What the objects of a pickle become while it is read: records of tensors and arrays, and things that do nothing."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_NUMBERS_AND_TEXTS = re.compile(r"[biufSU]\d{1,4}")
_MOST_AXES = 16


class ForeignError(ValueError):
    """A pickle holds what is not read; the message tells what, as the end of a sentence."""


class Inert:
    """Stands for an object that is neither a tensor nor a plain value; what is done with it leaves no trace."""

    __slots__ = ()

    def __call__(self, *args: Any) -> "Inert":
        """What came of calling it."""
        return self


class Storage:
    """Memory that tensors lie in.

    Args:
        key: its name in the file.
        dtype: of its elements.
        count: how many elements it has.
        start: the element of the named memory that it begins at.
    """

    __slots__ = ("count", "dtype", "key", "start")

    def __init__(self, key: str, dtype: torch.dtype, count: int, start: int = 0) -> None:
        self.key, self.dtype, self.count, self.start = key, dtype, count, start


class StoredTensor:
    """A tensor whose memory has not been read yet.

    Args:
        storage: its memory.
        offset: its first element.
        size: its shape.
        stride: elements from one place to the next along each axis.
        dtype: of its elements, where the memory has none.
    """

    __slots__ = ("dtype", "offset", "size", "storage", "stride")

    def __init__(self, storage: Any, offset: Any, size: Any, stride: Any, dtype: torch.dtype | None = None) -> None:
        if not isinstance(storage, Storage) or not (is_count(offset) and _is_shape(size) and _is_shape(stride)):
            raise ForeignError("it is damaged")
        self.storage, self.offset, self.size, self.stride = storage, offset, size, stride
        self.dtype = dtype or storage.dtype
        count = storage.count * storage.dtype.itemsize // self.dtype.itemsize
        last = offset + sum((length - 1) * step for length, step in zip(self.size, self.stride, strict=True))
        elements = math.prod(self.size)
        if elements and (last >= count or elements > max(count, 1 << 20)):
            raise ForeignError("it is damaged: a tensor reaches beyond its memory")


class StoredArray:
    """An array of numpy, empty until it is told its state.

    Args:
        *args: what numpy takes.
    """

    __slots__ = ("array",)

    def __init__(self, *args: Any) -> None:
        self.array: np.ndarray | None = None

    def tell(self, state: Any) -> None:
        """Takes its state.

        Args:
            state: a version, shape, dtype, whether columns come one after another, and bytes.
        """
        _, shape, dtype, in_columns, content = state
        self.array = _array(content, dtype, shape, "F" if in_columns else "C")


class StoredDtype:
    """A dtype of numpy.

    Args:
        code: a letter and how many bytes.
        *args: what else numpy takes.
    """

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *args: Any) -> None:
        self.code, self.order = code, "="

    def tell(self, state: Any) -> None:
        """Takes its state.

        Args:
            state: a version, the order of bytes, and more that is not looked at.
        """
        self.order = state[1]

    def known(self) -> np.dtype | None:
        """The real one; None where it is not of numbers or texts."""
        if not isinstance(self.code, str) or self.order not in ("<", ">", "|", "="):
            return None
        return np.dtype(self.order + self.code) if _NUMBERS_AND_TEXTS.fullmatch(self.code) else None


class Known:
    """Stands for a function or class whose work is done here.

    Args:
        make: does the work.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        """What the real thing would give."""
        return self._make(*args)


def _array(content: Any, dtype: Any, shape: Any, order: Any = "C") -> np.ndarray | None:
    content = content.encode("latin1") if isinstance(content, str) else content
    known = dtype.known() if isinstance(dtype, StoredDtype) else None
    if known is None or not isinstance(content, bytes) or not known.itemsize:
        return None
    if order not in ("C", "F") or not _is_shape(shape):
        raise ForeignError("it is damaged")
    return np.frombuffer(content, known).reshape(shape, order=order)


def scalar(dtype: Any, content: Any = b"") -> Any:
    """A number or text of numpy, as Python's.

    Args:
        dtype: what it is, a ``StoredDtype``.
        content: its bytes.
    """
    array = _array(content, dtype, (1,))
    return Inert() if array is None else array.tolist()[0]


def array_of_bytes(buffer: Any, dtype: Any, shape: Any, order: Any = "C") -> StoredArray:
    """An array of numpy, as protocol 5 writes it.

    Args:
        buffer: its bytes.
        dtype: what it holds, a ``StoredDtype``.
        shape: its shape.
        order: C or F, whether rows or columns come one after another.
    """
    stored = StoredArray()
    stored.array = _array(buffer, dtype, shape, order)
    return stored


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 up that fits into 64 bits."""
    return type(value) is int and 0 <= value < 1 << 63


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= _MOST_AXES and all(map(is_count, value))
