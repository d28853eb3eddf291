"""Interpolation of a bias table on geometrically spaced places, as BEiT does for another window."""

import torch
from torch import Tensor


def geometric_resize(table: Tensor, size: tuple[int, int]) -> Tensor:
    """Resizes a table of relative places without stretching its centre.

    Along an axis of ``2 r + 1`` relative places the old values are not spread evenly over the new reach R, they are put
    at ``0, +-1, +-(1 + q), ..., +-(1 + q + ... + q^(r-1))``, where q in [1.01, 1.5] makes the last one reach R. So a
    neighbour stays a neighbour, and only far places move apart. Between them the value is that of the cubic spline
    through all places (third derivative continuous at the second and the last but one), along rows and columns; beyond
    the last place its value is kept. An axis whose size stays is left as it is.

    Source: Bao et al., "BEiT", 2021, the published code's ``load_state_dict`` for segmentation, which takes scipy's
    ``interp2d(kind="cubic")``; axes are treated one by one here, so windows need not be square.

    Args:
        table: values ``(heads, rows, columns)``, odd numbers of rows and columns.
        size: rows and columns wanted, odd numbers.
    """
    rows, columns = (_axis_weights(old, new) for old, new in zip(table.shape[1:], size, strict=True))
    resized = rows @ table.to("cpu", torch.float64) @ columns.t()
    return resized.to(table)


def geometric_places(count: int, new_count: int) -> Tensor:
    """The new relative places of ``count`` old ones, in tokens.

    Args:
        count: number of old relative places, odd.
        new_count: number of new relative places, odd.

    Returns:
        Places ``(count,)``, float64, symmetric about 0.
    """
    reach, new_reach = count // 2, new_count // 2
    low, high = 1.01, 1.5
    while high - low > 1e-6:
        ratio = (low + high) / 2
        low, high = (low, ratio) if (1 - ratio**reach) / (1 - ratio) > new_reach else (ratio, high)
    steps = ((low + high) / 2) ** torch.arange(reach, dtype=torch.float64)
    right = steps.cumsum(0)
    return torch.cat([-right.flip(0), torch.zeros(1, dtype=torch.float64), right])


def _axis_weights(count: int, new_count: int) -> Tensor:
    """The linear map ``(new_count, count)`` from old values to new ones along one axis."""
    if count == new_count:
        return torch.eye(count, dtype=torch.float64)
    places = geometric_places(count, new_count)
    reach = new_count // 2
    wanted = torch.arange(-reach, reach + 1, dtype=torch.float64).clamp(places[0], places[-1])
    return _spline_basis(wanted, places) @ torch.linalg.inv(_spline_basis(places, places))


def _spline_basis(x: Tensor, places: Tensor) -> Tensor:
    """B-splines ``(len(x), len(places))`` that can pass through any values at ``places`` (Cox and de Boor).

    The degree is 3, or less where there are fewer than four places. The knots are the places but for the second and the
    last but one, where the spline is one polynomial on both sides.
    """
    degree = min(3, len(places) - 1)
    inner = places[2:-2] if degree == 3 else places[:0]
    knots = torch.cat([places[:1].expand(degree + 1), inner, places[-1:].expand(degree + 1)])
    last = torch.arange(len(knots) - 1) == len(places) - 1
    at_end = (x == places[-1])[:, None] & last
    x = x[:, None]
    basis = ((x >= knots[:-1]) & (x < knots[1:]) | at_end).double()
    for order in range(1, degree + 1):
        rise = (x - knots[: -order - 1]) / (knots[order:-1] - knots[: -order - 1])
        fall = (knots[order + 1 :] - x) / (knots[order + 1 :] - knots[1:-order])
        basis = basis[:, :-1] * rise.nan_to_num(0, 0, 0) + basis[:, 1:] * fall.nan_to_num(0, 0, 0)
    return basis
