"""From what a pickle became while it was read to tensors and plain values alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from src.weights.stored import ForeignError, Storage, StoredArray, StoredTensor

_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_DEEPEST, _MOST = 100, 1_000_000
_GONE = object()


def plain_tree(tree: Any, memory: Callable[[Storage], torch.UntypedStorage]) -> Any:
    """Tensors and plain values, in dict, list, tuple and set; everything else is left out of what holds it.

    Args:
        tree: what the pickle became.
        memory: gives the bytes of a tensor's memory, from its beginning.

    Raises:
        ForeignError: nothing is left, or it is nested without end.
    """
    plain = _Reader(memory).read(tree, 0)
    if plain is _GONE:
        raise ForeignError("it holds neither tensors nor plain values")
    return plain


class _Reader:
    def __init__(self, memory: Callable[[Storage], torch.UntypedStorage]) -> None:
        self._memory = memory
        self._storages: dict[str, torch.UntypedStorage] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._arrays: dict[int, Any] = {}
        self._count = 0

    def read(self, value: Any, depth: int) -> Any:
        self._count += 1
        if depth > _DEEPEST or self._count > _MOST:
            raise ForeignError(f"it holds more than {_DEEPEST} levels or {_MOST} values")
        if type(value) in _PLAIN:
            return value
        if isinstance(value, StoredTensor):
            return self._tensor(value)
        if isinstance(value, StoredArray):
            if id(value) not in self._arrays:
                self._arrays[id(value)] = _of_numpy(value.array)
            return self._arrays[id(value)]
        if isinstance(value, dict):
            pairs = ((key, self.read(item, depth + 1)) for key, item in value.items())
            return {key: item for key, item in pairs if item is not _GONE}
        if isinstance(value, list | tuple | set):
            items = (self.read(item, depth + 1) for item in value)
            return type(value)(item for item in items if item is not _GONE)
        return _GONE

    def _tensor(self, stored: StoredTensor) -> torch.Tensor:
        if id(stored) not in self._tensors:
            storage = stored.storage
            if storage.key not in self._storages:
                self._storages[storage.key] = self._memory(storage)
            memory = self._storages[storage.key]
            if memory.nbytes() < (storage.start + storage.count) * storage.dtype.itemsize:
                raise ForeignError("it is damaged: the memory of a tensor is not all there")
            offset = stored.offset + storage.start * storage.dtype.itemsize // stored.dtype.itemsize
            empty = torch.empty(0, dtype=stored.dtype)
            tensor = empty.set_(memory, offset, stored.size, stored.stride)
            self._tensors[id(stored)] = tensor
        return self._tensors[id(stored)]


def _of_numpy(array: np.ndarray | None) -> Any:
    """A tensor, or texts in lists; nothing of what torch has no dtype for."""
    if array is None:
        return _GONE
    if array.dtype.kind == "U":
        return array.tolist() if array.size else []
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=True))
    except TypeError:
        return _GONE
