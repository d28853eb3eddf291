"""A small cache for tensors that follow from sizes alone: coordinates, indices, regions."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def cached_geometry(maxsize: int) -> Callable[[Function], Function]:
    """Keeps the last results of a function of sizes, devices and tensors (which are told apart by identity).

    Two things ``functools.lru_cache`` alone would get wrong: a tensor made in inference mode could never be used in
    training again, and one made while a graph is traced is no real tensor. So results are made outside inference mode,
    and nothing is kept while torch compiles, exports or tries fake tensors. ``cache_info`` and ``cache_clear`` are
    those of ``lru_cache``.

    Args:
        maxsize: number of results kept; the least recently used one goes first.
    """

    def decorate(function: Function) -> Function:
        @functools.lru_cache(maxsize)
        def kept(*args: Any) -> Any:
            with torch.inference_mode(False):
                return function(*args)

        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            traced = torch.compiler.is_compiling() or type(torch.empty(0, device="cpu")) is not torch.Tensor
            return function(*args) if traced else kept(*args)

        for name in ("cache_info", "cache_clear"):
            setattr(wrapper, name, getattr(kept, name))
        return cast(Function, wrapper)

    return decorate
