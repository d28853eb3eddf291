"""From logits at a model's stride to labels and scores at the size of a picture."""

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.banded_labels import banded_labels
from src.layers.bands import Scratch, bands, channels_last, image_groups
from src.layers.size import Size


def label_map(logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None) -> Tensor:
    """The best class of every pixel, in bands of rows, so that full-size logits never exist.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Labels ``(B, H, W)``, int64, 0..K-1: the argmax of ``resize_logits``, but for scores that tie in rounding and
        pixels with a score that is NaN, which have any label.
    """
    return banded_labels(logits, input_size, size, max_bytes)[0]


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


@torch.no_grad()
def label_map_with_confidence(
    logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None
) -> tuple[Tensor, Tensor]:
    """The best class of every pixel and its probability, in one pass over bands of rows.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Labels ``(B, H, W)``, int64, as ``label_map`` gives them, and their softmax ``(B, H, W)``, 1/K..1, in float32 or
        float64.
    """
    labels, confidence = banded_labels(logits, input_size, size, max_bytes, probability=True)
    assert confidence is not None
    return labels, confidence


@torch.no_grad()
def probabilities(
    logits: Tensor,
    input_size: Size,
    size: Size | None = None,
    dtype: torch.dtype | None = None,
    max_bytes: int | None = None,
) -> Tensor:
    """The softmax at full size: the softmax of ``resize_logits``, of which no other tensor of this size is made.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.
        dtype: type of the result, for example float16 for half the memory; None: float32, or the logits' float64.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.

    Returns:
        Probabilities ``(B, K, H, W)``, 0..1, which sum to 1 over K up to rounding.

    Raises:
        ValueError: ``dtype`` is no floating type.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    dtype = dtype or wide
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating type, got {dtype}; torch.float16 takes the least memory.")
    height, width = size or input_size
    result = torch.empty(*logits.shape[:2], height, width, dtype=dtype, device=logits.device)
    scratch = Scratch(logits)
    for group in image_groups(logits, (height, width), max_bytes):
        for band in bands(logits[group], input_size, size, max_bytes):
            scores = band.mix(channels_last(logits[group, :, band.source]), scratch)
            softmax = torch.softmax(scores, -1, out=scratch.take("softmax", tuple(scores.shape), wide))
            result[group, :, band.rows] = softmax.permute(0, 3, 1, 2)
    return result
