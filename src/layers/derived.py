"""What follows from weights alone, kept for as long as they stay as they are."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


class Derived(Generic[Value]):
    """The last value that was made from some tensors.

    It is made anew once one of them was replaced or changed in place. What changes a tensor behind autograd's back, by
    way of ``tensor.data`` or in a fused optimizer, is seen on a CPU where it changes one of a few elements that are
    looked at, as optimizers and averages of weights do, and elsewhere not, where looking would wait for the device;
    ``clear`` forgets. The memory of the tensors is kept until then. Copies and pickles of it are empty, threads may
    share it.
    """

    def __init__(self) -> None:
        self._kept: tuple[Hashable, list[Tensor], Value] | None = None

    def get(self, sources: Sequence[Tensor], options: Hashable, make: Callable[[], Value]) -> Value:
        """The value, made where need be.

        Args:
            sources: the tensors that it is made from. Where one needs a gradient, or torch compiles, nothing is kept.
            options: what else it depends on.
            make: makes it.
        """
        needs_gradient = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        if needs_gradient or torch.compiler.is_compiling() or any(source.is_inference() for source in sources):
            return make()
        key = (options, *map(_state, sources))
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[2]
        with torch.inference_mode(False), torch.no_grad():  # what inference mode makes is of no use elsewhere
            value = make()
            same_memory = [source.detach() for source in sources]  # so that nothing else comes to stand there
        self._kept = (key, same_memory, value)
        return value

    def clear(self) -> None:
        """Forgets the value."""
        self._kept = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()


def _state(tensor: Tensor) -> Hashable:
    return id(tensor), tensor.data_ptr(), tensor._version, tensor.dtype, tensor.shape, tensor.stride(), _some(tensor)


def _some(tensor: Tensor) -> Hashable:
    """A few elements of a tensor on a CPU."""
    if tensor.device.type != "cpu" or not tensor.numel():
        return None
    steps = [max(1, extent // 2) for extent in tensor.shape]
    return tuple(tensor.detach()[tuple(slice(step // 2, None, step) for step in steps)].flatten().tolist())
