"""Memory that some work takes beyond what was there before it: of the process, and of the tensors alone."""

import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_PEAK = "5"  # what is written there to begin the peak anew

TRIMMED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""What a process must have in its environment so that glibc gives freed memory back instead of keeping it."""


@dataclass(frozen=True)
class MemoryUse:
    """Bytes beyond what was there before.

    Args:
        peak: largest resident set of the process less the one before the work; on a GPU largest bytes allocated.
        live: largest bytes of tensors that lived at once, without those that were there before; None on a GPU.
        source: who counted ``peak``: the ``kernel``, a thread that ``sampled`` it, or ``cuda``.
    """

    peak: int
    live: int | None
    source: Literal["kernel", "sampled", "cuda"]


def memory_of(work: Callable[[], Any], device: str = "cpu") -> MemoryUse:
    """Memory that some work takes beyond what was there before it. The work is done once.

    Args:
        work: what to do.
        device: ``cpu`` or ``cuda``.

    Raises:
        ValueError: this system tells nothing of its memory.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return MemoryUse(torch.cuda.max_memory_allocated() - before, None, "cuda")
    if not _STATUS.exists():
        raise ValueError(f"memory is read from {_STATUS}, which this system does not have; leave out these rows.")
    _trim()
    before = resident()
    if _begin_peak():
        with LiveBytes() as live:
            work()
        return MemoryUse(max(0, resident("VmHWM") - before), live.peak, "kernel")
    with _Sampler() as sampler, LiveBytes() as live:
        work()
    return MemoryUse(max(0, sampler.peak - before), live.peak, "sampled")


def resident(kind: Literal["VmRSS", "VmHWM"] = "VmRSS") -> int:
    """Bytes of this process that lie in memory.

    Args:
        kind: ``VmRSS`` for now, ``VmHWM`` for the most since the peak was begun anew.
    """
    with _STATUS.open() as file:
        line = next(line for line in file if line.startswith(kind))
    return int(line.split()[1]) * 1024


def _begin_peak() -> bool:
    """Lets the kernel forget the peak so far; False where it does not allow that."""
    try:
        _CLEAR.write_text(_PEAK)
    except OSError:
        return False
    return resident("VmHWM") <= resident() + 2**20


def _trim() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are made within it and live at once.

    What operators hold only while they run is not counted. ``peak`` has the most bytes at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts what an operator gives, unless an argument lends it its memory."""
        before = {storage._cdata for storage in _storages((args, kwargs))}
        result = func(*args, **kwargs or {})
        for storage in _storages(result):
            if storage._cdata not in before and storage._cdata not in self._known:
                self._add(storage)
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._known[key] = weakref.ref(storage, lambda _: self._remove(key, size))
        self._now += size
        self.peak = max(self.peak, self._now)

    def _remove(self, key: int, size: int) -> None:
        del self._known[key]
        self._now -= size


def _storages(values: Any) -> list[torch.UntypedStorage]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor) and value.layout is torch.strided]
    return [tensor.untyped_storage() for tensor in tensors]


class _Sampler:
    """Looks at the resident set every millisecond, where the kernel keeps no peak of its own."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.is_set():
            self.peak = max(self.peak, resident())
            time.sleep(1e-3)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.peak = max(self.peak, resident())
