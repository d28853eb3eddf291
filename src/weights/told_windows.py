"""The windows that weights were trained with, from what stands beside them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from src.layers.position_bias.table import relative_index
from src.layers.size import Size
from src.layers.windows import window_coords
from src.models.swin_encoder import stage_windows
from src.weights.own import own_arguments, told_window_facts

_STAGE = re.compile(r"(?:layers|stages)[._](\d+)\.|features\.(\d+)\.")
_NAME = re.compile(r"window(\d+)(?:to(\d+))?_(?:\d+to)?(\d+)")


class Windows(NamedTuple):
    """The windows of the stages.

    Attributes:
        used: height and width of each stage's windows, in tokens.
        pretrained: for Swin V2, the windows whose reach normalises the coordinates of each stage; None where that is
            the stage's own.
    """

    used: tuple[Size, ...]
    pretrained: tuple[Size | None, ...]


def told_windows(
    tensors: Mapping[str, Tensor], facts: Mapping[str, Any], source: str, num_stages: int
) -> Windows | None:
    """What a file says of its windows beside its weights: in settings, indices, its config or its published name.

    Args:
        tensors: all tensors of the file under their own names.
        facts: plain values of the file.
        source: how the file was named.
        num_stages: number of stages of the encoder.
    """
    config = _mapping(facts.get("config"))
    return (
        _from_arguments(own_arguments(facts, "encoder"), "window_size", "pretrained_window_size", num_stages)
        or _from_arguments(told_window_facts(facts), "windows", "pretrained_windows", num_stages)
        or _from_buffers(tensors, num_stages)
        or _from_config(_mapping(config.get("backbone_config")) or config, num_stages)
        or _from_name(str(config.get("architecture", "")), num_stages)
        or _from_name(source.replace("\\", "/").rpartition("/")[2], num_stages)
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _from_arguments(told: Mapping[str, Any], window: str, pretrained: str, num_stages: int) -> Windows | None:
    """From what this toolkit wrote about its own model."""
    try:
        used = stage_windows(told[window], num_stages)
        known = told.get(pretrained) or 0
        known = known if isinstance(known, int) else [entry or 0 for entry in known]
        reach = stage_windows(known, num_stages, least=0)
    except (LookupError, TypeError, ValueError):
        return None
    return Windows(
        tuple(used),
        tuple(_unless_same(entry if min(entry) else None, own) for entry, own in zip(reach, used, strict=True)),
    )


def _from_buffers(tensors: Mapping[str, Tensor], num_stages: int) -> Windows | None:
    used: dict[int, Size | None] = {}
    pretrained: dict[int, Size | None] = {}
    for name, value in tensors.items():
        match = _STAGE.search(name)
        if not match:
            continue
        stage = int(match[1]) if match[1] else (int(match[2]) - 1) // 2
        if name.endswith("relative_position_index"):
            used.setdefault(stage, _indexed_window(value))
        elif name.endswith("relative_coords_table") and value.ndim == 4:
            pretrained.setdefault(stage, _normalised_by(value))
    windows = tuple(window for stage in range(num_stages) if (window := used.get(stage)))
    if not windows or len(windows) != num_stages:
        return None
    return Windows(windows, tuple(_unless_same(pretrained.get(i), window) for i, window in enumerate(windows)))


def _unless_same(pretrained: Size | None, window: Size) -> Size | None:
    return None if pretrained == window else pretrained


def _indexed_window(index: Tensor) -> Size | None:
    """The window of an index ``(N, N)``, or of one flattened; None where it is none."""
    index = index.flatten().long()
    tokens = round(len(index) ** 0.5)
    # from the first token on, the index falls by one a column, and by more where a row ends
    falls = index[: tokens - 1] - index[1:tokens]
    ends = torch.nonzero(falls != 1)
    width = int(ends[0]) + 1 if len(ends) else tokens
    if not tokens:
        return None
    window = (tokens // width, width)
    coords = window_coords(window, index.device)
    return window if torch.equal(relative_index(coords, coords, window).flatten(), index) else None


def _normalised_by(table: Tensor) -> Size | None:
    """The window whose reach divided the offsets in a table of log-spaced coordinates ``(1, 2 h - 1, 2 w - 1, 2)``."""
    _, rows, columns, _ = table.shape
    reach = []
    for axis, count in enumerate((rows, columns)):
        largest = float(table[..., axis].max())
        far = (count - 1) // 2
        reach.append(round(far * 8 / (8**largest - 1)) + 1 if largest > 0 and far else 1)
    return reach[0], reach[1]


def _from_config(config: Mapping[str, Any], num_stages: int) -> Windows | None:
    """From a ``config.json`` of transformers, whose windows never exceed the map at the image size it names."""
    sizes = [config.get(key) for key in ("window_size", "image_size", "patch_size")]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    window, image, patch = cast("list[int]", sizes)
    if config.get("model_type") == "swin":
        return _square([window] * num_stages, [0] * num_stages)
    pretrained = config.get("pretrained_window_sizes") or [0] * num_stages
    whole = isinstance(pretrained, list) and all(isinstance(side, int) and side >= 0 for side in pretrained)
    if config.get("model_type") != "swinv2" or not whole or len(pretrained) != num_stages:
        return None
    return _at_image_size(window, image // patch, pretrained)


def _from_name(name: str, num_stages: int) -> Windows | None:
    """From a published name of Swin V2, such as ``swinv2_base_window12to24_192to384``."""
    match = _NAME.search(name) if "swinv2" in name.lower().replace("_v2", "v2") else None
    if not match:
        return None
    first, second, image = (int(part) if part else None for part in match.groups())
    window = second or first
    if not window or not image:
        return None
    # a model trained on has the windows of its first training as pretrained ones, the last stage's map being half
    pretrained = [first or 0] * (num_stages - 1) + [(first or 0) // 2] if second else [0] * num_stages
    return _at_image_size(window, image // 4, pretrained)


def _at_image_size(window: int, tokens: int, pretrained: Iterable[int]) -> Windows:
    pretrained = list(pretrained)
    return _square([min(window, max(1, tokens // 2**stage)) for stage in range(len(pretrained))], pretrained)


def _square(used: Sequence[int], pretrained: Sequence[int]) -> Windows:
    return Windows(tuple((side, side) for side in used), tuple((side, side) if side else None for side in pretrained))
