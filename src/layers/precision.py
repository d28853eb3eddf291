"""The floating types that layers work in."""

import contextlib

import torch
from torch import Tensor


def working_dtype(like: Tensor) -> torch.dtype:
    """The type of automatic precision where it is on for the device, else the tensor's; it leaves float64 alone.

    Args:
        like: what comes in.
    """
    device = like.device.type
    if like.dtype == torch.float64:
        return like.dtype
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return like.dtype


def own_precision(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Within it, automatic precision is off: tensors stay in the types that they have.

    Args:
        device: where the work is done.
    """
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
