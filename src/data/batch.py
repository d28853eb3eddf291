"""What the data give to a model: one image, and a batch of images of one or of several sizes.

Shapes: B images a batch, C channels, H and W the padded input, h_i and w_i the input of image i, H_i and W_i its file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORE_INDEX = 255
"""Stands in masks wherever there is no label."""


class Item(TypedDict):
    """One image, ready for a model.

    Attributes:
        image: ``(C, h, w)`` float32, normalised.
        mask: ``(H, W)`` int64; at the input's size in training, at the label's original size in evaluation.
        size: height and width of the image inside the input, in pixels.
        original_size: height and width in the file, in pixels.
        name: path of the image inside its folder, with ``/`` and suffix.
    """

    image: Tensor
    mask: NotRequired[Tensor]
    size: tuple[int, int]
    original_size: tuple[int, int]
    name: str


@dataclass(frozen=True)
class UnreadableImage:
    """What stands for an image that cannot be read, in prediction.

    Args:
        name: path of the image inside its folder, with ``/`` and suffix.
        reason: what its reader said.
    """

    name: str
    reason: str


class Batch(TypedDict):
    """Images of one or of several sizes, padded with zeros at the right and at the bottom.

    Attributes:
        images: ``(B, C, H, W)`` float32, normalised.
        masks: in training ``(B, H, W)`` int64; in evaluation one ``(H_i, W_i)`` int64 an image, at the label's original
            size; absent in prediction.
        sizes: true height and width of each input, in pixels.
        original_sizes: height and width of each file, in pixels.
        names: path of each image inside its folder, with ``/`` and suffix.
        unreadable: in prediction the names of images that are not in the batch, because they cannot be read, and why;
            where it is all of them, B is 0.
    """

    images: Tensor
    masks: NotRequired[Tensor | list[Tensor]]
    sizes: list[tuple[int, int]]
    original_sizes: list[tuple[int, int]]
    names: list[str]
    unreadable: NotRequired[dict[str, str]]


def collate_training(items: Sequence[Item]) -> Batch:
    """A batch whose masks are one tensor ``(B, H, W)``.

    Args:
        items: images and masks of one size.
    """
    return _collated(items, masks=torch.stack([item["mask"] for item in items]))


def collate_evaluation(items: Sequence[Item]) -> Batch:
    """A batch whose masks stay one tensor ``(H_i, W_i)`` an image, each at its label's original size.

    Args:
        items: images of any size; without masks in prediction.
    """
    return _collated(items, masks=[item["mask"] for item in items if "mask" in item])


def collate_prediction(items: Sequence[Item | UnreadableImage]) -> Batch:
    """A batch without masks, of the images that can be read.

    Args:
        items: images of any size, or what stands for an image that cannot be read.
    """
    batch = _collated([item for item in items if not isinstance(item, UnreadableImage)], masks=[])
    batch["unreadable"] = {item.name: item.reason for item in items if isinstance(item, UnreadableImage)}
    return batch


def _collated(items: Sequence[Item], masks: Tensor | list[Tensor]) -> Batch:
    height = max((item["image"].shape[1] for item in items), default=0)
    width = max((item["image"].shape[2] for item in items), default=0)
    pixels = [padded(item["image"], (height, width)) for item in items]
    batch = Batch(
        images=torch.stack(pixels) if pixels else torch.empty(0, 0, 0, 0),
        sizes=[item["size"] for item in items],
        original_sizes=[item["original_size"] for item in items],
        names=[item["name"] for item in items],
    )
    if len(masks):
        batch["masks"] = masks
    return batch


def padded(pixels: Tensor, size: tuple[int, int], value: float = 0) -> Tensor:
    """``pixels`` with ``value`` added at the right and at the bottom up to ``size``; themselves where nothing is added.

    Args:
        pixels: ``(..., h, w)``.
        size: height and width of the result in pixels, at least those of ``pixels``.
        value: what to add.
    """
    if tuple(pixels.shape[-2:]) == tuple(size):
        return pixels
    return F.pad(pixels, (0, size[1] - pixels.shape[-1], 0, size[0] - pixels.shape[-2]), value=value)
