"""What libraries keep in a state dict although it follows from sizes: indices, coordinates, masks."""

import math
import re
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from src.layers.position_bias.table import relative_index
from src.layers.size import Size
from src.layers.windows import window_coords, window_regions
from src.weights.layouts.layout import State
from src.weights.layouts.recognise import kind_of, layout_named

_CPU = torch.device("cpu")
_MOST_IN_A_MASK = 2**26
_BLOCK = re.compile(r"encoder\.layers\.(\d+)\.blocks\.(\d+)\.norm1\.weight")
_BLOCKS = {
    "microsoft": "layers.{stage}.blocks.{block}",
    "official": "layers.{stage}.blocks.{block}",
    "mmseg": "stages.{stage}.blocks.{block}",
    "torchvision": "features.{odd}.{block}",
}


def buffers(
    layout_name: str,
    state: State,
    windows: Sequence[Size],
    image_size: Size | None = None,
    pretrained_windows: Sequence[Size | None] | None = None,
) -> State:
    """What a library needs beside the weights to load them strictly, under its names.

    Args:
        layout_name: name of the layout.
        state: the weights under our names.
        windows: height and width of each stage's windows, in tokens.
        image_size: height and width of the images that the model is built for, in pixels; only Microsoft's asks for it.
        pretrained_windows: for Swin V2, the windows whose reach normalises each stage's coordinates, None where the
            stage's own.

    Returns:
        Tensors by name, none of them shared; empty where the library keeps none.

    Raises:
        ValueError: the layout is not known, or its library has no such windows, or none at that image size, or masks
            of too many values there.
    """
    first = "encoder.layers.0.blocks.0.attn."
    version = 2 if f"{first}logit_scale" in state else 1
    kind = kind_of(state)
    root = layout_named(layout_name, kind, version).roots[kind]
    if layout_name not in _BLOCKS:
        return {}
    if layout_name != "torchvision":
        _check_square(layout_name, windows)
    pretrained = pretrained_windows or [None] * len(windows)
    dtype = state[f"{first}proj.weight"].dtype
    made: State = {}
    for stage, block in (map(int, match.groups()) for name in state if (match := _BLOCK.fullmatch(name))):
        window = windows[stage]
        name = root + _BLOCKS[layout_name].format(stage=stage, block=block, odd=2 * stage + 1)
        attention = f"{name}.attn.w_msa" if layout_name == "mmseg" else f"{name}.attn"
        coords = window_coords(window, _CPU)
        index = relative_index(coords, coords, window).clone()  # (N, N)
        made[f"{attention}.relative_position_index"] = index.flatten() if layout_name == "torchvision" else index
        if version == 2:
            made[f"{attention}.relative_coords_table"] = _coordinates(window, pretrained[stage] or window).to(dtype)
        if layout_name == "microsoft":
            map_size = _map_size(state, stage, window, image_size)
            if block % 2 and 1 < window[0] < min(map_size):
                made[f"{name}.attn_mask"] = _mask(map_size, window).to(dtype)
    return made


def _check_square(layout_name: str, windows: Sequence[Size]) -> None:
    if any(height != width for height, width in windows):
        raise ValueError(f"windows must be square in the layout {layout_name}, got {list(windows)}; take another one.")


def _coordinates(window: Size, reach: Size) -> Tensor:
    """Signed logarithms of all offsets in a window ``(1, 2 h - 1, 2 w - 1, 2)``, those at the reach being 1 or so.

    Source: Liu et al., "Swin Transformer V2", 2021, equation 4, with the constants of the published code.
    """
    axes = [torch.arange(1 - extent, extent) * 8.0 / max(far - 1, 1) for extent, far in zip(window, reach, strict=True)]
    offsets = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[None]
    return offsets.sign() * (offsets.abs() + 1).log2() / math.log2(8)


def _map_size(state: State, stage: int, window: Size, image_size: Size | None) -> Size:
    """Height and width of a stage's map, in tokens."""
    if image_size is None:
        raise ValueError(
            "image_size must be given for the layout microsoft, got None; give that of the model's images."
        )
    step = state["encoder.patch_embed.proj.weight"].shape[-1] * 2**stage
    map_size = (image_size[0] // step, image_size[1] // step)
    whole = all(pixels % step == 0 for pixels in image_size)
    if not whole or any(tokens % side for tokens, side in zip(map_size, window, strict=True)):
        raise ValueError(
            f"image_size must give maps that windows of {window[0]}x{window[1]} tokens fill in the layout microsoft, "
            f"got {image_size[0]}x{image_size[1]} pixels; {step * window[0]} and its multiples are such sizes in "
            f"stage {stage}."
        )
    return map_size


def _mask(map_size: Size, window: Size) -> Tensor:
    """What Microsoft's code adds in each shifted window ``(M, N, N)``: 0 within a region, -100 between two."""
    count = map_size[0] * map_size[1] * window[0] * window[1]
    if count > _MOST_IN_A_MASK:
        raise ValueError(
            f"image_size must give masks of at most {_MOST_IN_A_MASK:,} values in the layout microsoft, got one of "
            f"{count:,}; give a smaller one."
        )
    regions = cast(Tensor, window_regions(map_size, map_size, window, (window[0] // 2, window[1] // 2), False, _CPU))
    return torch.where(regions[:, :, None] == regions[:, None, :], 0.0, -100.0)
