"""Fitting weights to a model of another window, another grid or other channels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.position_bias import TableBias
from src.layers.position_bias.table import ResizeMethod
from src.layers.size import Size


def resized_table(table: Tensor, window: Size, new_window: Size, method: ResizeMethod) -> Tensor:
    """A bias table of another window, see :meth:`src.layers.position_bias.TableBias.resized`.

    Args:
        table: ``((2 h - 1) * (2 w - 1), heads)``.
        window: its height and width, in tokens.
        new_window: the wanted height and width, in tokens.
        method: ``bicubic``, ``bilinear`` or ``geometric``.

    Returns:
        A table for the new window, float32.
    """
    bias = TableBias(window, table.shape[1])
    bias.load_state_dict({"relative_position_bias_table": table})
    return bias.resized(new_window, method).relative_position_bias_table.detach()


def resized_embedding(embed: Tensor, grid: Size) -> Tensor:
    """An absolute position embedding on another grid, bicubic.

    Args:
        embed: ``(1, C, h, w)``.
        grid: the wanted height and width, in tokens.

    Returns:
        ``(1, C, *grid)``, float32.
    """
    return F.interpolate(embed.float(), grid, mode="bicubic", align_corners=False)


def resized_channels(weight: Tensor, channels: int) -> Tensor:
    """The first convolution's weight for another number of input channels.

    For one channel it is the sum, and what a grey image gives is what its three equal channels gave. For more, its
    channels are repeated in turn, each divided by how often it occurs: an image whose channels are repeated in turn
    gives what it gave before. For fewer, the first ones are kept and scaled by the share that was cut.

    Args:
        weight: ``(D, C, p, p)``.
        channels: the wanted number of channels.

    Returns:
        ``(D, channels, p, p)``, float32.
    """
    weight = weight.float()
    given = weight.shape[1]
    if channels == 1:
        return weight.sum(1, keepdim=True)
    if channels < given:
        return weight[:, :channels] * (given / channels)
    origin = torch.arange(channels) % given
    copies = torch.bincount(origin, minlength=given).to(weight)
    return weight[:, origin] / copies[origin][:, None, None]
