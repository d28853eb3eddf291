"""Losses of processes that train together, as of one that has all their images.

The processes average their gradients. What a loss is divided by, or what it is a function of, must be that of the
joined batch. Every process must therefore score its batch, as often as the others.
"""

from torch import Tensor, distributed


def divided_by_count(total: Tensor, count: Tensor) -> Tensor:
    """The sum of a loss divided by a count, so that averaged gradients are those of the joined batch's mean.

    Args:
        total: the process's own sum, a scalar.
        count: what it counts, a scalar of any type; over all processes where ``total`` has a gradient.

    Returns:
        A scalar; 0 where nothing counts.
    """
    count = count.to(total.dtype)
    if total.requires_grad and _several():
        distributed.all_reduce(count)
        count = count / distributed.get_world_size()
    return total / count.where(count > 0, 1)


def joined_sums(sums: Tensor) -> Tensor:
    """Sums over all processes, so that averaged gradients of a function of them are those of the joined batch.

    Args:
        sums: the process's own, of any shape. Without a gradient they stay as they are: nobody else may be there.
    """
    if not (sums.requires_grad and _several()):
        return sums
    joined = sums.detach().clone()
    distributed.all_reduce(joined)
    # Each process sees its own part alone, and the average divides by their number.
    return joined + distributed.get_world_size() * (sums - sums.detach())


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
