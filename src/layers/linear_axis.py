"""Bilinear resizing along one axis as a product with small matrices, once or several times in a row.

A place of the resized axis is a mix of a few neighbouring cells, so that some neighbouring places are a small matrix
times a short run of cells. Products with such matrices are many times faster than a kernel that looks for the cells of
each place, both ways: the gradient is the transposed matrix.

Shapes: x is ``(n, before, cells, after)``, of which ``cells`` is resized.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from src.layers.bilinear import neighbours
from src.layers.geometry_cache import cached_geometry

BLOCK = 128
"""Places that one matrix makes; on a CPU 64 and 128 are alike, for accelerators it is not measured."""


@dataclass(frozen=True)
class Axis:
    """What each place of a resized axis is made from.

    Attributes:
        first: first of the neighbouring cells that each place mixes, ``(places,)`` int64, never falling.
        shares: share of each of these cells, ``(places, cells mixed)`` float32 or float64.
    """

    first: Tensor
    shares: Tensor


@dataclass(frozen=True)
class Block:
    """Some neighbouring places and the cells behind them.

    Attributes:
        places: which places.
        cells: which cells.
        matrix: share of each cell in each place, ``(places, cells)`` float32 or float64.
    """

    places: slice
    cells: slice
    matrix: Tensor


@cached_geometry(maxsize=64)
def linear_axis(lengths: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Axis:
    """The axis after resizing it from each of ``lengths`` to the next, without aligned corners.

    Args:
        lengths: lengths of the axis, in cells; one alone is no resizing.
        dtype: float32 or float64; the shares of one resizing are rounded as torch's kernels round them.
        device: where the result lies.
    """
    first, shares = torch.arange(lengths[0]), torch.ones(lengths[0], 1, dtype=torch.float64)
    for source, target in itertools.pairwise(lengths):
        lower, upper, share = neighbours(torch.arange(target), source, target, dtype)
        second = share.double()[:, None]
        taps = shares.shape[1]
        length = int((first[upper] + taps - first[lower]).max())
        start = first[lower].clamp(max=max(0, lengths[0] - length))
        mixed = torch.zeros(target, length, dtype=torch.float64)
        for index, part in ((lower, 1 - second), (upper, second)):
            places = (first[index] - start)[:, None] + torch.arange(taps)
            mixed.scatter_add_(1, places, part * shares[index])
        first, shares = start, mixed
    return Axis(first.to(device), shares.to(device, dtype))


@cached_geometry(maxsize=64)
def axis_blocks(lengths: tuple[int, ...], block: int, dtype: torch.dtype, device: torch.device) -> tuple[Block, ...]:
    """The axis in blocks of neighbouring places.

    Args:
        lengths: lengths of the axis, in cells, see ``linear_axis``.
        block: number of places in a block; the last may have fewer.
        dtype: float32 or float64.
        device: where the matrices lie.
    """
    axis = linear_axis(lengths, dtype, torch.device("cpu"))
    taps = axis.shares.shape[1]
    blocks = []
    for start in range(0, lengths[-1], block):
        first = axis.first[start : start + block]
        low = int(first[0])
        matrix = torch.zeros(len(first), int(first[-1]) + taps - low, dtype=dtype)
        matrix.scatter_(1, (first - low)[:, None] + torch.arange(taps), axis.shares[start : start + block])
        blocks.append(Block(slice(start, start + len(first)), slice(low, low + matrix.shape[1]), matrix.to(device)))
    return tuple(blocks)


def resized(x: Tensor, block: Block, result: Tensor, offset: int = 0) -> None:
    """Writes the places of a block.

    Args:
        x: cells from number ``offset`` on, ``(n, cells, after)``.
        block: what to make.
        result: ``(n, places, after)``, overwritten.
        offset: number of the first cell in ``x``.
    """
    cells = x[:, block.cells.start - offset : block.cells.stop - offset]
    torch.bmm(block.matrix.expand(len(x), -1, -1), cells, out=result)


def add_transposed(gradient: Tensor, block: Block, result: Tensor, offset: int = 0) -> None:
    """Adds the gradient of a block's places to that of its cells.

    Args:
        gradient: of the places, ``(n, places, after)``.
        block: what the places were made by.
        result: gradient of the cells from number ``offset`` on, ``(n, cells, after)``.
        offset: number of the first cell in ``result``.
    """
    cells = result[:, block.cells.start - offset : block.cells.stop - offset]
    product = torch.empty_like(cells)  # one call for all matrices, where adding in place would make one for each
    torch.bmm(block.matrix.mT.expand(len(gradient), -1, -1), gradient, out=product)
    cells.add_(product)


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 in float32, whatever less precise types the program allows for its network.

    Rounded scores that lie close together would change their order.
    """
    lowered = [
        (backend, backend.fp32_precision)
        for backend in (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
        if backend.fp32_precision not in ("ieee", "none")
    ]
    for backend, _ in lowered:
        backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        for backend, precision in lowered:
            backend.fp32_precision = precision
