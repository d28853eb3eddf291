"""What a graph keeps for the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import saved_tensors_hooks

from src.layers import recompute


@contextmanager
def kept_storages() -> Iterator[list[int]]:
    """Gives the bytes of each storage that the graph made within it keeps, once it is left.

    Of nested hooks torch calls the innermost ones alone, so those of ``not_kept`` are looked into as well.
    """
    kept: dict[int, torch.Tensor] = {}
    sizes: list[int] = []

    def seen(saved):
        if isinstance(saved, torch.Tensor):
            kept[saved.untyped_storage().data_ptr()] = saved
        return saved

    def watched(pack, unpack):
        return saved_tensors_hooks(lambda tensor: seen(pack(tensor)), unpack)

    recompute.saved_tensors_hooks = watched
    try:
        with saved_tensors_hooks(seen, lambda tensor: tensor):
            yield sizes
    finally:
        recompute.saved_tensors_hooks = saved_tensors_hooks
    sizes += [tensor.untyped_storage().nbytes() for tensor in kept.values()]
