"""Tensors that are made again for the backward pass, so that they need not be kept."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


class Recomputed:
    """How a tensor is made from others that are kept anyway.

    What is made for one user is handed on to the next one, then forgotten.

    Args:
        make: makes the tensor, the same bits each time; what it holds is kept until the backward pass is over. It runs
            under the automatic precision of today.
        device: type of the device that it runs on.
        of: another recipe that ``make`` calls.
    """

    def __init__(self, make: Callable[[], Tensor], device: str, of: "Recomputed | None" = None) -> None:
        self._make = make
        self._of = of
        self._uses = 0
        self._waiting: Tensor | None = None
        self._precision: Callable[[], AbstractContextManager[Any]] = nullcontext
        if torch.amp.is_autocast_available(device):
            enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
            self._precision = partial(torch.autocast, device, dtype=dtype, enabled=enabled)

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """The tensor; it must not be changed."""
        made = self._waiting
        if made is None:
            with self._precision():
                made = self._make()
        self._uses -= 1
        self._waiting = made if self._uses > 0 else None
        return made

    def expect_use(self) -> None:
        """Tells that the tensor will be wanted once more."""
        if self._uses == 0 and self._of is not None:
            self._of.expect_use()
        self._uses += 1


@contextmanager
def not_kept(*pairs: tuple[Tensor | None, Recomputed | None]) -> Iterator[None]:
    """Within it, the graph keeps recipes in the place of tensors.

    Args:
        *pairs: a tensor and its recipe, where it has one; a recipe without a tensor stands for all that the graph would
            keep within.
    """

    def pack(saved: Tensor) -> Any:
        for tensor, recipe in pairs:
            if recipe is not None and (tensor is None or _same(saved, tensor)):
                recipe.expect_use()
                return recipe
        return saved

    def unpack(kept: Any) -> Tensor:
        return kept() if isinstance(kept, Recomputed) else kept

    if all(recipe is None for _, recipe in pairs):
        yield
        return
    with saved_tensors_hooks(pack, unpack):
        yield


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.stride() == other.stride() and one.data_ptr() == other.data_ptr()
