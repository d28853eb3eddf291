"""From logits at a model's stride to labels and scores at the size of a picture."""

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.bands import bands
from src.layers.size import Size


@torch.no_grad()
def label_map(logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None) -> Tensor:
    """The best class of every pixel, in bands of rows, so that full-size logits never exist.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Labels ``(B, H, W)``, int64, 0..K-1: the argmax of ``resize_logits``, but for scores that tie in rounding.
    """
    height, width = size or input_size
    labels = torch.empty(logits.shape[0], height, width, dtype=torch.int64, device=logits.device)
    for band in bands(logits, input_size, size, max_bytes):
        labels[:, band.rows] = band.resized(logits[:, :, band.source]).max(dim=1).indices
    return labels


def resize_logits(logits: Tensor, input_size: Size, size: Size | None = None) -> Tensor:
    """Logits at the size of the input, or of the picture that it was resized from.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.

    Returns:
        Scores ``(B, K, H, W)``, float32 for half precision and the logits' own type otherwise.
    """
    if size is None or tuple(size) == tuple(input_size):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.interpolate(logits, size=tuple(input_size), mode="bilinear", align_corners=False)
    pieces = [band.resized(logits[:, :, band.source]) for band in bands(logits, input_size, size)]
    return torch.cat(pieces, dim=2).contiguous()
