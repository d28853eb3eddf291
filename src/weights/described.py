"""The sizes of a model, read from its weights alone."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from torch import Tensor

from src.layers.size import Size
from src.weights.layouts.layout import State

_TABLE = "attn.position_bias.relative_position_bias_table"
_DIGITS = 17


@dataclass(frozen=True)
class EncoderDescription:
    """What a Swin encoder was built with, as far as its weights tell.

    Args:
        version: 1 or 2.
        embed_dim: number of channels of the first stage.
        depths: number of blocks of each stage.
        num_heads: number of attention heads of each stage.
        patch_size: height and width of a patch, in pixels.
        in_channels: number of channels of an image.
        mlp_ratio: channels within an MLP, as a multiple of the stage's.
        qkv_bias: whether queries, keys and values have a bias.
        absolute_pos_embed: height and width of an absolute position embedding, in tokens; None: without one.
        windows: height and width of each stage's windows, in tokens; None where nothing tells.
        pretrained_windows: for version 2, the windows whose reach normalises each stage's coordinates, None where the
            stage's own; None altogether for version 1.
    """

    version: Literal[1, 2]
    embed_dim: int
    depths: tuple[int, ...]
    num_heads: tuple[int, ...]
    patch_size: int
    in_channels: int
    mlp_ratio: float
    qkv_bias: bool
    absolute_pos_embed: Size | None
    windows: tuple[Size, ...] | None
    pretrained_windows: tuple[Size | None, ...] | None

    @property
    def known_windows(self) -> tuple[Size, ...]:
        """The windows.

        Raises:
            ValueError: nothing tells them.
        """
        if self.windows is None:
            raise ValueError(
                "the window of this Swin V2 must be known, and nothing in its file or name tells it; give the file "
                "under the name that it was published by, such as swinv2_tiny_patch4_window8_256.pth."
            )
        return self.windows

    @property
    def settings(self) -> dict[str, Any]:
        """Class path and arguments of the encoder, in plain types.

        Raises:
            ValueError: nothing tells the windows.
        """
        arguments: dict[str, Any] = {
            "embed_dim": self.embed_dim,
            "depths": list(self.depths),
            "num_heads": list(self.num_heads),
            "window_size": _shortest(self.known_windows),
            "patch_size": self.patch_size,
            "in_channels": self.in_channels,
            "mlp_ratio": self.mlp_ratio,
            "qkv_bias": self.qkv_bias,
            "absolute_pos_embed": None if self.absolute_pos_embed is None else list(self.absolute_pos_embed),
        }
        if self.version == 1:
            return {"class_path": "src.models.swin.SwinTransformer", "init_args": arguments}
        if self.pretrained_windows and any(self.pretrained_windows):
            arguments["pretrained_window_size"] = _shortest(self.pretrained_windows)
        return {"class_path": "src.models.swin_v2.SwinTransformerV2", "init_args": arguments}


@dataclass(frozen=True)
class HeadsDescription:
    """What a UPerNet decoder and an auxiliary head were built with, as far as their weights tell.

    Args:
        num_classes: number of classes.
        channels: channels inside the decoder.
        num_pools: how many grids the coarsest level is pooled to; the weights do not tell which.
        auxiliary_channels: channels of the auxiliary head's convolutions; None without one.
        auxiliary_convs: number of convolutions in the auxiliary head.
        auxiliary_level: the level that the auxiliary head works on, 0 for the finest.
    """

    num_classes: int
    channels: int
    num_pools: int
    auxiliary_channels: int | None
    auxiliary_convs: int
    auxiliary_level: int


def described_encoder(
    state: State,
    windows: Sequence[Size] | None = None,
    pretrained_windows: Sequence[Size | None] | None = None,
) -> EncoderDescription:
    """What the weights tell of their encoder.

    Args:
        state: tensors under our names, ``encoder.`` before the encoder's.
        windows: each stage's window, in tokens, where something beside the weights tells it.
        pretrained_windows: as in ``EncoderDescription``, where something beside the weights tells them.

    Raises:
        ValueError: these are not the weights of a Swin encoder.
    """
    try:
        return _described(state, windows, pretrained_windows)
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"the weights must be those of a Swin encoder, got others ({error}); give a published checkpoint of one."
        ) from error


def _described(
    state: State, windows: Sequence[Size] | None, pretrained_windows: Sequence[Size | None] | None
) -> EncoderDescription:
    stem = state["encoder.patch_embed.proj.weight"]
    depths = stage_depths(state)
    first = [f"encoder.layers.{stage}.blocks.0." for stage in range(len(depths))]
    version: Literal[1, 2] = 2 if f"{first[0]}attn.logit_scale" in state else 1
    if version == 1:
        num_heads = [state[name + _TABLE].shape[1] for name in first]
        rows = [state[name + _TABLE].shape[0] for name in first]
        windows = windows or [_square(count) for count in rows]
        _check_rows(rows, windows)
    else:
        num_heads = [state[f"{name}attn.logit_scale"].numel() for name in first]
        pretrained_windows = pretrained_windows or ([None] * len(depths) if windows else None)
    embed = state.get("encoder.absolute_pos_embed")
    bias = "attn.qkv.bias" if version == 1 else "attn.q_bias"
    return EncoderDescription(
        version=version,
        embed_dim=stem.shape[0],
        depths=tuple(depths),
        num_heads=tuple(num_heads),
        patch_size=stem.shape[-1],
        in_channels=stem.shape[1],
        mlp_ratio=_ratio([state[f"{name}mlp.fc1.weight"].shape for name in first]),
        qkv_bias=f"{first[0]}{bias}" in state,
        absolute_pos_embed=None if embed is None else (embed.shape[2], embed.shape[3]),
        windows=None if windows is None else tuple(windows),
        pretrained_windows=None if version == 1 or pretrained_windows is None else tuple(pretrained_windows),
    )


def stage_depths(state: Mapping[str, Tensor]) -> list[int]:
    """Number of blocks of each stage.

    Args:
        state: tensors under our names, ``encoder.`` before the encoder's.
    """
    blocks = {match.groups() for name in state if (match := re.match(r"encoder\.layers\.(\d+)\.blocks\.(\d+)\.", name))}
    stages = sorted({int(stage) for stage, _ in blocks})
    return [1 + max(int(block) for stage, block in blocks if int(stage) == wanted) for wanted in stages]


def described_heads(state: State) -> HeadsDescription | None:
    """What the weights tell of their decoder and auxiliary head; None where they are of another decoder than UPerNet.

    Args:
        state: tensors under our names.
    """
    if not {"decoder.conv_seg.weight", "decoder.bottleneck.conv.weight"} <= state.keys():
        return None
    num_classes, channels = state["decoder.conv_seg.weight"].shape[:2]
    scored = state.get("auxiliary.conv_seg.weight")
    auxiliary = state.get("auxiliary.convs.0.conv.weight", scored)  # a head may have no convolution
    norms = [name for name in state if re.fullmatch(r"encoder\.norm\d+\.weight", name)]
    widths = [state[name].numel() for name in sorted(norms)]
    level = 2 if auxiliary is None or auxiliary.shape[1] not in widths else widths.index(auxiliary.shape[1])
    return HeadsDescription(
        num_classes=num_classes,
        channels=channels,
        num_pools=sum(bool(re.fullmatch(r"decoder\.psp_modules\.\d+\.1\.conv\.weight", name)) for name in state),
        auxiliary_channels=None if scored is None else scored.shape[1],
        auxiliary_convs=sum(bool(re.fullmatch(r"auxiliary\.convs\.\d+\.conv\.weight", name)) for name in state),
        auxiliary_level=level,
    )


def _ratio(shapes: Sequence[Sequence[int]]) -> float:
    """The shortest decimal by which the channels of every stage become those of its MLP, which are rounded down."""
    least, stage = max((Fraction(hidden, dim), (hidden, dim)) for hidden, dim in shapes)
    for digits in range(_DIGITS):
        ratio = math.ceil(least * 10**digits) / 10**digits
        if all(int(ratio * dim) == hidden for hidden, dim in shapes):
            return ratio
    return stage[0] / stage[1]


def _square(rows: int) -> Size:
    """The square window whose bias table has so many rows."""
    side = math.isqrt(rows)
    if side**2 != rows or side % 2 == 0:
        raise ValueError(f"a bias table of {rows} rows is of no square window")
    return (side + 1) // 2, (side + 1) // 2


def _check_rows(rows: Sequence[int], windows: Sequence[Size]) -> None:
    for count, (height, width) in zip(rows, windows, strict=True):
        if count != (2 * height - 1) * (2 * width - 1):
            raise ValueError(f"a bias table of {count} rows is not of a window of {height}x{width}")


def _shortest(windows: Sequence[Size | None]) -> Any:
    """Windows as short as an argument can say them."""
    if len(set(windows)) == 1 and windows[0] is not None:
        height, width = windows[0]
        return height if height == width else [height, width]
    return [list(window) if window and window[0] != window[1] else (window or (0,))[0] for window in windows]
