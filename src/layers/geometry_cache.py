"""A small cache for tensors that follow from sizes alone: coordinates, indices, region masks."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import torch

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class CachedGeometry(Protocol[P, R_co]):
    """A function with the bookkeeping of ``functools.lru_cache``."""

    cache_info: Callable[[], Any]
    cache_clear: Callable[[], None]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def cached_geometry(maxsize: int) -> Callable[[Callable[P, R_co]], CachedGeometry[P, R_co]]:
    """Keeps the last results of a function of sizes, devices and tensors (which are told apart by identity).

    Two things ``functools.lru_cache`` alone would get wrong: a tensor made in inference mode could never be used in
    training again, and one made while a graph is traced is no real tensor. So results are made outside inference mode,
    and nothing is kept while torch compiles or exports.

    Args:
        maxsize: number of results kept; the least recently used one goes first.
    """

    def decorate(function: Callable[P, R_co]) -> CachedGeometry[P, R_co]:
        @functools.lru_cache(maxsize)
        def kept(*args: Any, **kwargs: Any) -> R_co:
            with torch.inference_mode(False), torch.no_grad():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R_co:
            if torch.compiler.is_compiling():
                return function(*args, **kwargs)
            return kept(*args, **kwargs)

        wrapper.cache_info = kept.cache_info  # type: ignore[attr-defined]
        wrapper.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return cast(CachedGeometry[P, R_co], wrapper)

    return decorate
