"""What the objects of a pickle become while it is read: records of tensors and arrays, and things that do nothing."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_NUMBERS_AND_TEXTS = re.compile(r"[biufSU]\d{1,4}")


class ForeignError(ValueError):
    """A pickle holds what is not read; the message tells what, as the end of a sentence."""


class Inert:
    """Stands for an object that is neither a tensor nor a plain value; what is done with it leaves no trace."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> "Inert":
        """An object, whatever it is made of."""
        return super().__new__(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> "Inert":
        """What came of calling it."""
        return self

    def __setitem__(self, key: Any, value: Any) -> None: ...

    @staticmethod
    def __setstate__(*state: Any) -> None:
        """Takes what it is told."""

    append = extend = add = __setstate__


class Storage(Inert):
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


class StoredTensor(Inert):
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
        if not isinstance(storage, Storage) or not all(map(is_count, (offset, *size, *stride))):
            raise ForeignError("it is damaged")
        self.storage, self.offset, self.size, self.stride = storage, offset, tuple(size), tuple(stride)
        self.dtype = dtype or storage.dtype
        count = storage.count * storage.dtype.itemsize // self.dtype.itemsize
        last = offset + sum((length - 1) * step for length, step in zip(self.size, self.stride, strict=True))
        elements = int(np.prod(np.array(self.size, dtype=object)))
        if elements and (last >= count or elements > max(count, 1 << 20)):
            raise ForeignError("it is damaged: a tensor reaches beyond its memory")


class StoredArray(Inert):
    """An array of numpy, empty until it is told its state.

    Args:
        *args: what numpy takes.
    """

    __slots__ = ("array",)

    def __init__(self, *args: Any) -> None:
        self.array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:  # type: ignore[override]
        _, shape, dtype, in_columns, content = state
        self.array = _array(content, dtype, shape, "F" if in_columns else "C")


class StoredDtype(Inert):
    """A dtype of numpy.

    Args:
        code: a letter and how many bytes.
        *args: what else numpy takes.
    """

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *args: Any) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:  # type: ignore[override]
        self.order = state[1]

    def known(self) -> np.dtype | None:
        """The real one; None where it is not of numbers or texts."""
        if not isinstance(self.code, str) or self.order not in ("<", ">", "|", "="):
            return None
        return np.dtype(self.order + self.code) if _NUMBERS_AND_TEXTS.fullmatch(self.code) else None


class Entries(dict):
    """A dictionary that takes no attributes."""

    __slots__ = ()

    @staticmethod
    def __setstate__(*state: Any) -> None:
        """Takes what it is told."""


class Known(Inert):
    """Stands for a function or class whose work is done here.

    Args:
        make: does the work.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the real thing would give."""
        return self._make(*args, **kwargs)


def _array(content: Any, dtype: Any, shape: Any, order: Any = "C") -> np.ndarray | None:
    content = content.encode("latin1") if isinstance(content, str) else content
    known = dtype.known() if isinstance(dtype, StoredDtype) else None
    if known is None or not isinstance(content, bytes | bytearray) or not known.itemsize:
        return None
    if order not in ("C", "F") or not all(map(is_count, shape)):
        raise ForeignError("it is damaged")
    return np.frombuffer(bytes(content), known).reshape(tuple(shape), order=order)


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
    """Whether a value is a whole number from 0 up."""
    return type(value) is int and value >= 0
