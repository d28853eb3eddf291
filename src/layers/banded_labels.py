"""The best class of every pixel, from logits at a stride.

A pixel is a mix of few cells with shares that are not negative. Where the same class is best in all of them it is best
in the pixel, so that only pixels between classes are computed.

Shapes: logits are ``(B, K, h, w)``, labels ``(B, H, W)``.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.bands import Band, Scratch, allowed_bytes, axis_lengths, bands, channels_last, image_groups
from src.layers.linear_axis import Axis, linear_axis
from src.layers.size import Size

_WIDEST = 8  # cells that a pixel may mix along an axis for its neighbourhood to be worth a look
_EXACT = 2**22  # classes up to which float32 tells sums of two places apart
_SAMPLE_BYTES = 2**20  # cells after which hopeless images are left
_MANY = 0.35  # share of pixels between classes from which on bands are faster; measured on a CPU with 150 classes


@torch.no_grad()
def banded_labels(
    logits: Tensor, input_size: Size, size: Size | None = None, max_bytes: int | None = None, probability: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Labels, and how probable they are, without full-size logits.

    Args:
        logits: scores ``(B, K, h, w)`` at any stride, any floating type.
        input_size: height and width of the model's input, in pixels; the logits are resized to it first.
        size: height and width of the result, in pixels, to which they are resized then; None for the input's.
        max_bytes: bytes of upsampled logits to hold at a time; None: as fits the device, see ``bands``.
        probability: whether to give the probabilities too, for which every pixel is computed.

    Returns:
        Labels ``(B, H, W)``, int64, 0..K-1, and the softmax of the labels' classes ``(B, H, W)``, 0..1, in float32 or
        float64, or None.
    """
    height, width = size or input_size
    labels = torch.empty(logits.shape[0], height, width, dtype=torch.int64, device=logits.device)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    probabilities = torch.empty(labels.shape, dtype=dtype, device=logits.device) if probability else None
    scratch = Scratch(logits)
    for group in image_groups(logits, (height, width), max_bytes):
        own = logits if group == slice(0, len(logits)) else logits[group]
        regions = None if probability else _Regions.of(own, input_size, size, max_bytes)
        for band in bands(own, input_size, size, max_bytes):
            cells = channels_last(own[:, :, band.source])
            if regions is not None:
                regions.write(cells, band, labels[group, band.rows], max_bytes)
                continue
            scores = band.mix(cells, scratch).flatten(0, 2)
            if probabilities is not None:
                softmax = torch.softmax(scores, 1, out=scratch.take("softmax", tuple(scores.shape), dtype))
                probabilities[group, band.rows] = softmax.amax(1).view(len(own), band.height, width)
            labels[group, band.rows] = _best(scores).view(len(own), band.height, width)
    return labels, probabilities


def _best(scores: Tensor) -> Tensor:
    """The place ``(P,)`` of the largest score of each row, the first of several. It may overwrite the scores."""
    if scores.device.type != "cpu" or scores.shape[1] > _EXACT:
        return scores.max(1).indices
    # torch is slow to find the place on a CPU. Without ties it is a sum over the one place that holds the maximum; two
    # of them sum to more than any one.
    num_classes = scores.shape[1]
    scores.eq_(scores.amax(1, keepdim=True)).mul_(torch.arange(num_classes, 2 * num_classes, dtype=scores.dtype))
    total = scores.sum(1)
    if bool(((total >= num_classes) & (total < 2 * num_classes)).all()):
        return total.sub_(num_classes).long()
    return (scores > 0).to(torch.uint8).argmax(1)


@dataclass(frozen=True)
class _Regions:
    """The best class of each cell, and where the cells that one pixel may mix have different ones.

    Args:
        best: best class of each cell, ``(B, h, w)`` int64.
        differs: whether it changes within the cells that a pixel mixes, by the first of them, ``(B, h, w)`` bool.
        rows: which rows of cells a row of pixels mixes.
        columns: which columns of cells a column of pixels mixes.
    """

    best: Tensor
    differs: Tensor
    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, logits: Tensor, input_size: Size, size: Size | None, max_bytes: int | None) -> "_Regions | None":
        """The regions of some images; None where computing every pixel is faster."""
        if logits.device.type != "cpu":  # there each band would wait until the number of pixels is known
            return None
        dtype = torch.promote_types(logits.dtype, torch.float32)
        axes = [linear_axis(lengths, dtype, logits.device) for lengths in axis_lengths(logits, input_size, size)]
        spans = [axis.shares.shape[1] for axis in axes]
        if max(spans) > _WIDEST or logits.shape[1] > _EXACT:
            return None
        best = torch.empty(len(logits), *logits.shape[-2:], dtype=torch.int64)
        few = min(allowed_bytes(logits, max_bytes), _SAMPLE_BYTES)
        for band in bands(logits, (logits.shape[-2], logits.shape[-1]), max_bytes=few):
            cells = channels_last(logits[:, :, band.rows])
            own = best[:, band.rows] = _best(cells.flatten(0, 2)).view(cells.shape[:3])
            if band.rows.start == 0 and float((own[..., 1:] != own[..., :-1]).float().mean()) > 2 * _MANY:
                return None
        padded = F.pad(best[:, None].float(), (0, spans[1] - 1, 0, spans[0] - 1), mode="replicate")
        differs = (F.max_pool2d(padded, spans, 1) != -F.max_pool2d(-padded, spans, 1))[:, 0]
        return cls(best, differs, *axes) if float(differs.float().mean()) <= _MANY else None

    def write(self, cells: Tensor, band: Band, labels: Tensor, max_bytes: int | None) -> None:
        """Writes the labels ``(B, rows, W)`` of a band, made from its cells ``(B, source rows, w, K)``."""
        first, shares = self.rows.first[band.rows], self.rows.shares[band.rows]
        labels.copy_(self.best[:, first][:, :, self.columns.first])
        found = self.differs[:, first][:, :, self.columns.first].nonzero()
        row_taps, column_taps = (torch.arange(axis.shares.shape[1]) for axis in (self.rows, self.columns))
        height, width = cells.shape[1:3]
        pixel_bytes = max(cells.shape[-1] * cells.itemsize, 4 * 8 * len(row_taps) * len(column_taps))
        at_once = max(1, allowed_bytes(cells, max_bytes) // pixel_bytes)
        for image, row, column in (part.unbind(1) for part in found.split(at_once)):
            down = (image * height + first[row] - band.source.start)[:, None] + row_taps
            across = self.columns.first[column][:, None] + column_taps
            share = shares[row][:, :, None] * self.columns.shares[column][:, None, :]
            mixed = down[:, :, None] * width + across[:, None, :]  # (pixels, row taps, column taps)
            scores = F.embedding_bag(
                mixed.flatten(1), cells.flatten(0, 2), per_sample_weights=share.flatten(1), mode="sum"
            )
            labels[image, row, column] = _best(scores)
