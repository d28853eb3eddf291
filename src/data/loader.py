"""Loaders that give the same batches whatever the number of workers, and that know where they stopped."""

import os
from collections.abc import Iterator
from typing import Any

import cv2
import torch
from torch.utils.data import DataLoader

from src.data.batch import Batch, Item
from src.data.samplers import IterationSampler


class TrainingLoader(DataLoader[Item]):
    """A loader over an ``IterationSampler`` that continues, once, where a saved state says; arguments as torch's.

    The state counts the batches taken from the loader, not those that workers have made ahead. Lightning saves and
    loads it with each checkpoint.
    """

    _position = (0, 0)

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        if isinstance(self.sampler, IterationSampler):
            self._position = self.sampler.position
        for batch in super().__iter__():
            epoch, taken = self._position
            self._position = (epoch, taken + len(batch["names"]))
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """The trainer's epoch and the samples of it that this process has taken."""
        epoch, taken = self._position
        return {"epoch": epoch, "taken": taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Lets the next iteration begin where ``state_dict`` was asked for.

        Args:
            state: what ``state_dict`` gave.
        """
        if isinstance(self.sampler, IterationSampler):
            self.sampler.start_at(state["epoch"], state["taken"])


def loader_options(
    num_workers: int, seed: int, persistent: bool = True, multiprocessing_context: str | None = None
) -> dict[str, Any]:
    """What every loader is given, so that it neither draws from nor slows what runs beside it.

    Args:
        num_workers: number of processes that read images.
        seed: of the loader's own generator; items do not depend on it.
        persistent: whether the processes live on from one pass to the next.
        multiprocessing_context: how they are started, ``fork``, ``spawn`` or ``forkserver``; None as Python does.
    """
    return {
        "num_workers": num_workers,
        "persistent_workers": persistent and num_workers > 0,
        "multiprocessing_context": multiprocessing_context if num_workers > 0 else None,
        "worker_init_fn": _use_one_thread,
        "generator": torch.Generator().manual_seed(seed),
        "pin_memory": torch.cuda.is_available(),
    }


def num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _use_one_thread(worker: int) -> None:
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
