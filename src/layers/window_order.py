"""The order in which the windows of a batch are worked on, and the way there and back in one copy each.

Windows whose tokens stand in regions of the same shape are neighbours in that order, so one mask serves them all. In a
shifted map only the last row and the last column of windows hold several regions: four masks at most.

Shapes: B images, a map of H x W tokens, T = B H W; M windows of all images with h x w = N tokens each.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from src.layers.geometry_cache import cached_geometry
from src.layers.size import Size
from src.layers.windows import padded_size, partition

_Shape = tuple[int, ...]  # along one axis of a window, the first place in the region of each place
_Run = tuple[int, int, _Shape]  # the first window along an axis, the one after the last, the shape of their regions


class WindowGroup(NamedTuple):
    """Neighbours in the order whose regions have the same shape.

    Attributes:
        start: the first window.
        stop: the window after the last.
        apart: pairs of tokens in different regions ``(N, N)``, bool; None where each window is one region.
    """

    start: int
    stop: int
    apart: Tensor | None


class WindowOrder(NamedTuple):
    """Where tokens stand in the windows of a batch.

    Attributes:
        tokens: the token ``(M * N,)`` of each place in the windows, int64, T at places that are padding.
        places: the place ``(T,)`` of each token, int64.
        padding: the places that are padding ``(M * N - T,)``, int64, None without any; in a graph for all sizes, which
            must not ask whether there are any, ``(M * N,)``, bool.
        groups: the groups of windows, which together are all.
    """

    tokens: Tensor
    places: Tensor
    padding: Tensor | None
    groups: tuple[WindowGroup, ...]

    def into_windows(self, x: Tensor, padded: Tensor | None = None) -> Tensor:
        """Puts tokens into the windows.

        Args:
            x: tokens ``(T, C)`` of the batch, image by image and row by row.
            padded: what stands at the places that are padding ``(C,)``; None: zeros.

        Returns:
            Windows ``(M * N, C)``.
        """
        return _IntoWindows.apply(x, None if self.padding is None else padded, *self[:3])

    def out_of_windows(self, windows: Tensor) -> Tensor:
        """Tokens ``(T, C)`` of windows ``(M * N, C)``: the way back."""
        return _OutOfWindows.apply(windows, *self[:3])


@cached_geometry(maxsize=32)
def window_order(
    batch: int,
    map_size: Size,
    sizes: tuple[Size, ...],
    window: Size,
    shift: Size,
    mask_padding: bool,
    device: torch.device,
) -> WindowOrder:
    """The order of the windows of a batch; regions are those of :func:`src.layers.windows.window_regions`.

    Args:
        batch: number of images.
        map_size: height and width of the map, in tokens.
        sizes: height and width of each image in the map, in tokens; a single one stands for all images.
        window: height and width of a window, in tokens.
        shift: rows and columns by which the map is rolled, in tokens.
        mask_padding: keep the padding of the last windows out of the image's regions.
        device: where the result lives.
    """
    if (
        torch.compiler.is_compiling()
        and not torch.compiler.is_exporting()
        and not mask_padding
        and sizes == (map_size,)
    ):
        return _order_of_any_size(batch, map_size, window, shift, device)
    height, width = map_size
    total = batch * height * width
    numbers = torch.arange(1, total + 1, device=device).view(batch, height, width, 1)
    rows, columns = (extent // step for extent, step in zip(padded_size(map_size, window), window, strict=True))
    numbers = partition(numbers, window, shift).view(batch, rows, columns, -1)  # 0 at padding
    members: dict[tuple[_Shape, _Shape], list[Tensor]] = {}
    shared = len(sizes) == 1 or len(set(sizes)) == 1
    for image, size in enumerate(sizes[:1] if shared else sizes):
        own = numbers if shared else numbers[image : image + 1]
        down, across = _runs(map_size, size, window, shift, mask_padding)
        for top, bottom, row_shape in down:
            for left, right, column_shape in across:
                part = own[:, top:bottom, left:right].reshape(-1, own.shape[-1])
                members.setdefault((row_shape, column_shape), []).append(part)
    groups = []
    start = 0
    for shapes, parts in members.items():
        stop = start + sum(len(part) for part in parts)
        groups.append(WindowGroup(start, stop, _apart(*shapes, device)))
        start = stop
    tokens = torch.cat([part for parts in members.values() for part in parts]).flatten() - 1
    tokens = torch.where(tokens < 0, total, tokens)
    places = tokens.new_empty(total + 1).scatter_(0, tokens, torch.arange(len(tokens), device=device))[:total]
    num_padded = len(tokens) - total
    # the number is known, so that nobody waits for the device to count
    padding = torch.nonzero_static(tokens == total, size=num_padded).flatten() if num_padded else None
    return WindowOrder(tokens, places, padding, tuple(groups))


def _order_of_any_size(batch: int, map_size: Size, window: Size, shift: Size, device: torch.device) -> WindowOrder:
    """The order of images that fill the map, for a graph that shall serve all sizes: what depends on them is made by an
    operator that the graph does not look into.
    """
    tokens, places = _places(torch.empty(0, device=device), batch, *map_size, list(window), list(shift))
    groups, start = [], 0
    down, across = _runs(map_size, map_size, window, shift, False)
    for top, bottom, row_shape in down:
        for left, right, column_shape in across:
            stop = start + batch * (bottom - top) * (right - left)
            groups.append(WindowGroup(start, stop, _apart(row_shape, column_shape, device)))
            start = stop
    return WindowOrder(tokens, places, tokens == batch * map_size[0] * map_size[1], tuple(groups))


@torch.library.custom_op("swin_upernet::window_places", mutates_args=())
def _places(
    like: Tensor, batch: int, height: int, width: int, window: list[int], shift: list[int]
) -> tuple[Tensor, Tensor]:
    size = (height, width)
    order = window_order(batch, size, (size,), (window[0], window[1]), (shift[0], shift[1]), False, like.device)
    return order.tokens.clone(), order.places.clone()  # a graph may write over what it was given


@_places.register_fake
def _(like: Tensor, batch: int, height: int, width: int, window: list[int], shift: list[int]) -> tuple[Tensor, Tensor]:
    rows, columns = padded_size((height, width), (window[0], window[1]))
    counts = (batch * rows * columns, batch * height * width)
    tokens, places = (like.new_empty(count, dtype=torch.int64) for count in counts)
    return tokens, places


def _runs(map_size: Size, size: Size, window: Size, shift: Size, mask_padding: bool) -> tuple[list[_Run], list[_Run]]:
    """Windows with regions of one shape, along each axis."""
    limits = size if mask_padding else padded_size(size, window)
    axes = zip(padded_size(map_size, window), limits, window, shift, strict=True)
    down, across = (_axis_runs(*axis) for axis in axes)
    return down, across


def _axis_runs(extent: int, limit: int, step: int, shift: int) -> list[_Run]:
    if limit < extent:
        return _runs_with_padding(extent, limit, step, shift)
    # without a loop over windows, which would tie a compiled graph to their number
    count = extent // step
    whole, parted = (0,) * step, (0,) * (step - shift) + (step - shift,) * shift
    if not shift:
        return [(0, count, whole)]
    return [(0, count - 1, whole), (count - 1, count, parted)] if count > 1 else [(0, 1, parted)]


def _runs_with_padding(extent: int, limit: int, step: int, shift: int) -> list[_Run]:
    runs: list[_Run] = []
    for start in range(0, extent, step):
        places = [(place + shift) % extent for place in range(start, start + step)]
        regions = [2 if place >= limit else int(place < shift) for place in places]
        shape = tuple(regions.index(region) for region in regions)
        first = runs.pop()[0] if runs and runs[-1][2] == shape else start // step
        runs.append((first, start // step + 1, shape))
    return runs


def _apart(rows: Sequence[int], columns: Sequence[int], device: torch.device) -> Tensor | None:
    if not (any(rows) or any(columns)):
        return None
    down, across = (torch.tensor(shape, device=device) for shape in (rows, columns))
    regions = (down[:, None] * len(columns) + across).flatten()
    return regions[:, None] != regions


class _IntoWindows(torch.autograd.Function):
    """Copies rows; its gradient copies them back, where that of indexing would add them up one by one."""

    @staticmethod
    def forward(x: Tensor, padded: Tensor | None, tokens: Tensor, places: Tensor, padding: Tensor | None) -> Tensor:
        if padding is None:
            return x.index_select(0, tokens)
        windows = x.index_select(0, tokens.clamp(max=len(x) - 1))
        if padding.dtype == torch.bool:
            return torch.where(padding[:, None], x.new_zeros(()) if padded is None else padded.to(x.dtype), windows)
        if padded is None:
            return windows.index_fill_(0, padding, 0)
        return windows.index_copy_(0, padding, padded.to(x.dtype).expand(len(padding), -1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:])
        ctx.padded_dtype = None if inputs[1] is None else inputs[1].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tokens, places, padding = ctx.saved_tensors
        of_padded = None
        if ctx.padded_dtype is not None and ctx.needs_input_grad[1]:
            if padding.dtype == torch.bool:
                rows = gradient.masked_fill(~padding[:, None], 0)
            else:
                rows = gradient.index_select(0, padding)
            of_padded = rows.sum(0, dtype=ctx.padded_dtype)
        return _OutOfWindows.apply(gradient, tokens, places, padding), of_padded, None, None, None


class _OutOfWindows(torch.autograd.Function):
    """What is left at padded places is lost."""

    @staticmethod
    def forward(windows: Tensor, tokens: Tensor, places: Tensor, padding: Tensor | None) -> Tensor:
        return windows.index_select(0, places)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _IntoWindows.apply(gradient, None, *ctx.saved_tensors), None, None, None
