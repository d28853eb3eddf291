"""Parameters and multiply-adds.

Shapes: an image of H x W pixels, K classes; one multiply-add is one multiplication with its addition.
"""

import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from src.layers.size import Size
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder
from src.models.features import FeatureSpec


def attention_flops(queries: Sequence[int], keys: Sequence[int], values: Sequence[int], *_: Any, **__: Any) -> int:
    """Operations, two for a multiply-add, of attention on a CPU, for which torch's counter has no formula.

    Args:
        queries: shape ``(..., N, d)``.
        keys: shape ``(..., M, d)``.
        values: shape ``(..., M, e)``.
        *_: not needed.
        **__: not needed.
    """
    return 2 * math.prod(queries[:-1]) * keys[-2] * (queries[-1] + values[-1])


_FORMULAS = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops}


def num_parameters(model: nn.Module) -> int:
    """Numbers that are trained."""
    return sum(parameter.numel() for parameter in model.parameters())


def macs_as_computed(model: nn.Module, size: Size, num_images: int = 1) -> int:
    """Multiply-adds of the matrix products and convolutions that a forward pass in eval mode runs.

    Args:
        model: a segmenter, on a CPU.
        size: height and width of an image in pixels.
        num_images: images of the batch.
    """
    images = torch.zeros(num_images, 3, *size)
    counted = copy.deepcopy(model).eval()  # what a model keeps from one image to the next stays with the copy
    with torch.no_grad():
        counted(images)  # what is done for the first image alone does not count
        with FlopCounterMode(display=False, custom_mapping=_FORMULAS) as counter:
            counted(images)
    return counter.get_total_flops() // 2


def macs_in_plain_form(model: Segmenter, size: Size) -> int | None:
    """Multiply-adds of one image where every operation is done as the published code writes it down.

    That is the number that papers call FLOPs, and the same for every library with this function: windows are padded
    before queries, keys and values are made, convolutions see upsampled maps, no head is run that training alone needs.

    Args:
        model: the model.
        size: height and width of the image in pixels.

    Returns:
        The count; None where the encoder is not a Swin or the decoder not UPerNet.
    """
    if not isinstance(model.encoder, SwinTransformer) or not isinstance(model.decoder, UPerNetDecoder):
        return None
    return swin_macs(model.encoder, size) + upernet_macs(model.decoder, size)


def swin_macs(encoder: SwinTransformer, size: Size) -> int:
    """Multiply-adds of a Swin in its plain form.

    Args:
        encoder: the encoder.
        size: height and width of an image in pixels.
    """
    told = encoder.settings["init_args"]
    first = encoder.feature_specs[0]
    total = _area(first.size(*size)) * told["in_channels"] * told["patch_size"] ** 2 * first.channels
    stages: Sequence[Any] = list(encoder.layers)
    for stage, spec in zip(stages, encoder.feature_specs, strict=True):
        map_size, dim = spec.size(*size), spec.channels
        for block in stage.blocks:
            window = block.attn.window
            padded = _area((_up(map_size[0], window[0]), _up(map_size[1], window[1])))
            total += padded * 4 * dim * dim  # queries, keys, values, and the projection behind them
            total += 2 * padded * _area(window) * dim  # products with keys, and sums of values
            total += 2 * _area(map_size) * dim * block.mlp.fc1.out_features
        if stage.downsample is not None:
            total += _area((_up(map_size[0], 2) // 2, _up(map_size[1], 2) // 2)) * 4 * dim * 2 * dim
    return int(total)


def upernet_macs(decoder: UPerNetDecoder, size: Size) -> int:
    """Multiply-adds of UPerNet in its plain form.

    Args:
        decoder: the decoder.
        size: height and width of an image in pixels.
    """
    told = decoder.settings["init_args"]
    specs: Sequence[FeatureSpec] = decoder.feature_specs
    areas = [_area(spec.size(*size)) for spec in specs]
    width, *_, coarse = told["channels"], specs[-1]
    total = sum(pool * pool * coarse.channels * width for pool in told["pool_sizes"])
    total += areas[-1] * 9 * (coarse.channels + len(told["pool_sizes"]) * width) * width
    for spec, area in zip(specs[:-1], areas[:-1], strict=True):
        total += area * spec.channels * width + area * 9 * width * width
    total += areas[0] * 9 * len(specs) * width * width
    return int(total + areas[0] * width * decoder.conv_seg.out_channels)


def head_macs(head: FCNHead, size: Size) -> int:
    """Multiply-adds of the auxiliary head, which training alone runs.

    Args:
        head: the head.
        size: height and width of an image in pixels.
    """
    told, spec = head.settings["init_args"], head.feature_specs[head.level]
    area, width = _area(spec.size(*size)), told["channels"]
    widths = [spec.channels, *[width] * told["num_convs"]]
    convs = sum(area * 9 * before * after for before, after in itertools.pairwise(widths))
    return int(convs + area * widths[-1] * head.conv_seg.out_channels)


def counts(model: Segmenter, size: Size) -> dict[str, int | None]:
    """Parameters of the whole and of its parts, and multiply-adds of one image.

    Args:
        model: the model, on a CPU.
        size: height and width of the image in pixels.
    """
    parts = {name: num_parameters(part) for name, part in model.named_children()}
    return {
        "parameters": num_parameters(model),
        **{f"parameters of the {name}": number for name, number in parts.items()},
        "multiply-adds, plain form": macs_in_plain_form(model, size),
        "multiply-adds, as computed": macs_as_computed(model, size),
    }


def _area(size: Sequence[int]) -> int:
    return int(size[0]) * int(size[1])


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
