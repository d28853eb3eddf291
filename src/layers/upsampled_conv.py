"""A 3x3 convolution of joined maps, some of which are upsampled bilinearly first, without making the upsampled maps.

``src.layers.upsampled_taps`` has the algebra. Shapes: B images, maps of h_i x w_i cells with C_i channels, C
together; a result of H x W cells with O channels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from src.layers.conv3x3 import Kernel, Numerics, conv_gradients, tile_for
from src.layers.precision import own_precision, working_dtype
from src.layers.size import Size
from src.layers.upsampled_taps import chunks, tap_rows, upsampled_gradients

_LARGE = (2**15, 2**15)
_NUMERICS: tuple[Numerics, Numerics] = ("exact", "fast")


def upsampled_conv(maps: Sequence[Tensor], weight: Tensor, size: Size, numerics: Numerics = "exact") -> Tensor:
    """A 3x3 convolution of maps resized bilinearly to one size and joined, the borders padded with zeros.

    Equals ``conv2d(cat([interpolate(map, size, mode="bilinear", align_corners=False) for map in maps], 1), weight,
    padding=1)`` up to the order of its sums, and so do the gradients, which can be taken once. In half precision the
    products of a small map are rounded before they are upsampled, for about 1.6 times the plain way's error.

    Args:
        maps: ``(B, C_i, h_i, w_i)`` of any size from 1x1; those of size H x W are convolved as they are.
        weight: ``(O, C, 3, 3)``, C the sum of all C_i.
        size: height H and width W of the result, in cells.
        numerics: of the maps that are convolved as they are, see ``src.layers.conv3x3``.

    Returns:
        ``(B, O, H, W)``, stored channels last.
    """
    size = (size[0], size[1])
    dtype = working_dtype(weight)
    if dtype != weight.dtype:
        maps, weight = [level.to(dtype) for level in maps], weight.to(dtype)
    # a compiled graph leaves the size to the operator, so that it serves them all
    extent = _LARGE if torch.compiler.is_compiling() else size
    if all(level.shape[2:] == size for level in maps) and tile_for(numerics, weight, extent) is None:
        return F.conv2d(torch.cat(list(maps), 1) if len(maps) > 1 else maps[0], weight, padding=1)
    return _joined(list(maps), weight, *size, numerics == "fast")


@torch.library.custom_op("swin_upernet::joined_conv", mutates_args=())
def _joined(maps: list[Tensor], weight: Tensor, height: int, width: int, fast: bool) -> Tensor:
    """One operator for torch: what it does inside is no matter of a compiler or of autograd."""
    kernel = JoinedKernel.prepared(weight, maps, (height, width), _NUMERICS[fast])
    return kernel.result(maps, (height, width)).permute(0, 3, 1, 2)


@torch.library.custom_op("swin_upernet::joined_conv_gradients", mutates_args=())
def _joined_gradients(
    gradient: Tensor, maps: list[Tensor], weight: Tensor, fast: bool, wanted: list[bool]
) -> list[Tensor]:
    """The gradients of the weight and of each map; what is not wanted is empty."""
    with own_precision(gradient.device):
        return _gradients(gradient, maps, weight, _NUMERICS[fast], wanted)


def _gradients(
    gradient: Tensor, maps: list[Tensor], weight: Tensor, numerics: Numerics, wanted: list[bool]
) -> list[Tensor]:
    of_weight, *of_maps = wanted
    gradients = [weight.new_empty(0)]
    parts = []
    channels = [level.shape[1] for level in maps]
    for level, part, of_map in zip(maps, weight.split(channels, 1), of_maps, strict=True):
        if level.shape[2:] == gradient.shape[2:]:
            pair = conv_gradients(level, part, gradient, numerics, (of_map, of_weight))
        else:
            pair = upsampled_gradients(level, part, gradient)
        gradients.append(level.new_empty(0) if pair[0] is None else pair[0])
        parts.append(pair[1])
    if of_weight:
        gradients[0] = torch.cat(cast(list[Tensor], parts), 1)
    return gradients


@_joined.register_fake
def _(maps: list[Tensor], weight: Tensor, height: int, width: int, fast: bool) -> Tensor:
    return maps[0].new_empty(len(maps[0]), height, width, len(weight)).permute(0, 3, 1, 2)


@_joined_gradients.register_fake
def _(gradient: Tensor, maps: list[Tensor], weight: Tensor, fast: bool, wanted: list[bool]) -> list[Tensor]:
    of_maps = (level.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) for level in maps)
    return [
        torch.empty_like(tensor) if needed else tensor.new_empty(0)
        for tensor, needed in zip([weight.contiguous(), *of_maps], wanted, strict=True)
    ]


def _setup_context(ctx: Any, inputs: tuple[list[Tensor], Tensor, int, int, bool], output: Tensor) -> None:
    maps, weight, _, _, ctx.fast = inputs
    ctx.save_for_backward(weight, *maps)


def _backward(ctx: Any, gradient: Tensor) -> tuple[list[Tensor | None], Tensor | None, None, None, None]:
    weight, *maps = ctx.saved_tensors
    of_maps, of_weight, *_ = ctx.needs_input_grad
    wanted = [of_weight, *of_maps]
    gradients = _joined_gradients(gradient, maps, weight, ctx.fast, wanted)
    found = [each if needed else None for each, needed in zip(gradients, wanted, strict=True)]
    return found[1:], found[0], None, None, None


_joined.register_autograd(_backward, setup_context=_setup_context)


@register_flop_formula(torch.ops.swin_upernet.joined_conv)
def _(maps: list[Size], weight: Size, height: int, width: int, fast: bool, **_: Any) -> int:
    """Operations of the plain way, as a counter of torch's adds them up for other convolutions."""
    return 2 * maps[0][0] * height * width * math.prod(weight)


@dataclass(frozen=True)
class JoinedKernel:
    """A convolution's weight, prepared for maps of which certain ones are upsampled.

    Args:
        parts: for each map what convolves it as it is, or ``(3, C_i, 3 * O)`` where it is upsampled, see ``tap_rows``.
        outputs: channels O of the result.
    """

    parts: tuple[Kernel | Tensor, ...]
    outputs: int

    @classmethod
    def prepared(cls, weight: Tensor, maps: Sequence[Tensor], size: Size, numerics: Numerics) -> "JoinedKernel":
        """The kernel of a weight ``(O, C, 3, 3)``.

        Args:
            weight: of the type and on the device of the maps.
            maps: ``(B, C_i, h_i, w_i)``; it matters which are of the result's size.
            size: height and width of the result, in cells; it matters whether it is ``large_enough``.
            numerics: see ``src.layers.conv3x3``.
        """
        parts = [
            Kernel.prepared(part, size, numerics) if tuple(level.shape[2:]) == size else tap_rows(part)
            for level, part in zip(maps, weight.split([level.shape[1] for level in maps], 1), strict=True)
        ]
        return cls(tuple(parts), len(weight))

    def result(self, maps: Sequence[Tensor], size: Size) -> Tensor:
        """The convolution, ``(B, H, W, O)``.

        Args:
            maps: ``(B, C_i, h_i, w_i)``, like those that it was prepared for.
            size: height and width of the result, in cells.
        """
        result = maps[0].new_empty(len(maps[0]), *size, self.outputs)
        written = False
        for level, part in sorted(zip(maps, self.parts, strict=True), key=lambda pair: isinstance(pair[1], Tensor)):
            if isinstance(part, Kernel) and not written:
                part.write(result, level)
            elif isinstance(part, Kernel):
                more = torch.empty_like(result)
                part.write(more, level)
                result += more
            else:
                if not written:
                    result.zero_()
                for image, lines in zip(level.permute(0, 2, 3, 1), result, strict=True):
                    for chunk in chunks(image, part, size):
                        chunk.add_to(lines, 0)
            written = True
        return result
