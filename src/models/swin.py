"""Swin Transformer as an encoder of images of any size, alone or several sizes in a batch.

Shapes: B images of ``in_channels`` x H x W pixels; stage i = 0, 1, ... works on a map of H_i x W_i tokens with
C_i = embed_dim * 2^i channels, H_i = ceil(H / stride_i), stride_i = patch_size * 2^i.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.position_bias import TableBias
from src.layers.size import Size
from src.layers.window_attention import PaddedKeys, WindowAttention
from src.layers.windows import zero_outside
from src.models.features import FeatureSpec, cells
from src.models.settings import RecordsSettings
from src.models.swin_block import PatchEmbed, PatchMerging, SwinBlock, SwinStage


class SwinSize(NamedTuple):
    """What tells the published sizes of Swin apart.

    Attributes:
        embed_dim: number of channels of the first stage.
        depths: number of blocks of each stage.
        num_heads: number of attention heads of each stage.
    """

    embed_dim: int
    depths: tuple[int, ...]
    num_heads: tuple[int, ...]


SWIN_SIZES = {
    "tiny": SwinSize(96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "small": SwinSize(96, (2, 2, 18, 2), (3, 6, 12, 24)),
    "base": SwinSize(128, (2, 2, 18, 2), (4, 8, 16, 32)),
    "large": SwinSize(192, (2, 2, 18, 2), (6, 12, 24, 48)),
}
"""The published sizes by name."""

_KEY = "model.model.encoder"


class SwinTransformer(RecordsSettings, nn.Module):
    """Swin Transformer with a LayerNorm on the output of every stage.

    Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021, and the
    authors' code for semantic segmentation, whose outputs it gives on every size.

    Args:
        embed_dim: number of channels of the first stage; each further stage has twice as many.
        depths: number of blocks of each stage.
        num_heads: number of attention heads of each stage; must divide its channels.
        window_size: height and width of a window, in tokens: one number, a pair (height, width), or a number or pair
            for each stage. Two numbers are always a pair.
        patch_size: height and width of a patch, in pixels.
        in_channels: number of channels of an image.
        mlp_ratio: channels within an MLP, as a multiple of the stage's.
        qkv_bias: give queries, keys and values a bias.
        shift_covered: keep the shift where a window covers the map, as the published models do; otherwise it is off
            along that axis, as in torchvision.
        padded_keys: ``attend``: the zeros that fill the last windows take part as keys (as in the published models);
            ``mask``: they do not.
        absolute_pos_embed: height and width, in tokens, of a learned absolute position embedding; None: without one.
        bias_init_std: standard deviation of the truncated normal that fills the bias tables.
        drop_rate: dropout of tokens, attention outputs and MLPs, a fraction.
        attn_drop_rate: dropout of attention weights, a fraction.
        drop_path_rate: chance that an image skips a residual branch of the last block in training, a fraction; it
            rises linearly from 0 at the first block.
        windows_per_chunk: most windows that attention works on at once; None: all. Bounds the memory of attention,
            changes nothing else.

    Attributes:
        feature_specs: channels and stride of each output.
        takes_sizes: True, images of several sizes may share a batch.

    Raises:
        ValueError: an argument is out of range or does not fit the others.
    """

    takes_sizes = True

    def __init__(
        self,
        embed_dim: int = 96,
        depths: Sequence[int] = (2, 2, 6, 2),
        num_heads: Sequence[int] = (3, 6, 12, 24),
        window_size: int | Sequence[int | Sequence[int]] = 7,
        patch_size: int = 4,
        in_channels: int = 3,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        shift_covered: bool = True,
        padded_keys: PaddedKeys = "attend",
        absolute_pos_embed: tuple[int, int] | None = None,
        bias_init_std: float = 0.02,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.3,
        windows_per_chunk: int | None = None,
    ) -> None:
        super().__init__()
        _check(
            {"embed_dim": embed_dim, "patch_size": patch_size, "in_channels": in_channels},
            {"drop_rate": drop_rate, "attn_drop_rate": attn_drop_rate, "drop_path_rate": drop_path_rate},
            depths,
            num_heads,
            absolute_pos_embed,
        )
        windows = stage_windows(window_size, len(depths))
        dims = [embed_dim * 2**i for i in range(len(depths))]
        self.in_channels = in_channels
        self.feature_specs = tuple(FeatureSpec(dim, patch_size * 2**i) for i, dim in enumerate(dims))
        self.patch_embed = PatchEmbed(in_channels, embed_dim, patch_size)
        self.absolute_pos_embed = (
            None if absolute_pos_embed is None else nn.Parameter(torch.empty(1, embed_dim, *absolute_pos_embed))
        )
        self.drop = nn.Dropout(drop_rate)
        attention = functools.partial(
            WindowAttention,
            shift_covered=shift_covered,
            padded_keys=padded_keys,
            qkv_bias=qkv_bias,
            attn_drop_rate=attn_drop_rate,
            drop_rate=drop_rate,
            windows_per_chunk=windows_per_chunk,
        )
        drop_paths = iter(torch.linspace(0, drop_path_rate, sum(depths), device="cpu").tolist())
        self.layers = nn.ModuleList()
        for dim, depth, heads, window in zip(dims, depths, num_heads, windows, strict=True):
            blocks = []
            for j in range(depth):
                shift = (window[0] // 2, window[1] // 2) if j % 2 else (0, 0)
                attn = attention(dim, heads, window, TableBias(window, heads, bias_init_std), shift)
                blocks.append(SwinBlock(dim, attn, mlp_ratio, drop_rate, next(drop_paths)))
            self.layers.append(SwinStage(blocks, PatchMerging(dim) if dim != dims[-1] else None))
        for i, dim in enumerate(dims):
            self.add_module(f"norm{i}", nn.LayerNorm(dim))
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if self.absolute_pos_embed is not None:
            nn.init.trunc_normal_(self.absolute_pos_embed, std=0.02)

    def forward(self, images: Tensor, sizes: Sequence[Size] | None = None) -> list[Tensor]:
        """The features of each stage.

        Args:
            images: ``(B, in_channels, H, W)``, normalised, any H and W from 1 up.
            sizes: true height and width of each image in the padded batch, in pixels; None: all fill it.

        Returns:
            A map ``(B, C_i, H_i, W_i)`` for each stage; inside its true size an image has the features it would have
            alone, whatever stands beyond; outside them zeros.

        Raises:
            ValueError: images or sizes of the wrong shape.
        """
        self._check_input(images, sizes)
        if sizes is not None:
            sizes = [(int(height), int(width)) for height, width in sizes]
            images = zero_outside(images.permute(0, 2, 3, 1), sizes).permute(0, 3, 1, 2)
            sizes = [cells(size, self.feature_specs[0].stride) for size in sizes]
        x = self.patch_embed(images)
        x = self.drop(self._with_position(x, sizes))
        features = []
        for i, stage in enumerate(self.layers):
            x, merged = stage(x, sizes)
            normed = zero_outside(self.get_submodule(f"norm{i}")(x), sizes)
            features.append(normed.permute(0, 3, 1, 2).contiguous())
            x = merged
            sizes = None if sizes is None else [cells(size, 2) for size in sizes]
        return features

    def _with_position(self, x: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        if self.absolute_pos_embed is None:
            return x
        map_size = (x.shape[1], x.shape[2])
        grids = [map_size] if sizes is None else sizes
        embeds = {size: self._position(size, map_size) for size in dict.fromkeys(grids)}
        return x + torch.cat([embeds[size] for size in grids])

    def _position(self, size: Size, map_size: Size) -> Tensor:
        """The absolute embedding ``(1, H_0, W_0, C_0)`` of an image of a size in tokens, zero beyond it."""
        embed = cast(Tensor, self.absolute_pos_embed)
        if size != embed.shape[2:]:
            embed = F.interpolate(embed, size, mode="bicubic", align_corners=False)
        return F.pad(embed, (0, map_size[1] - size[1], 0, map_size[0] - size[0])).permute(0, 2, 3, 1)

    def _check_input(self, images: Tensor, sizes: Sequence[Size] | None) -> None:
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"images must be (B, {self.in_channels}, H, W), got {tuple(images.shape)}; set {_KEY}.in_channels to "
                f"the channels of the images."
            )
        if 0 in images.shape:
            raise ValueError(f"images must have at least one pixel, got {tuple(images.shape)}; leave empty ones out.")
        if sizes is None:
            return
        if len(sizes) != len(images):
            raise ValueError(
                f"sizes must have one entry per image, got {len(sizes)} for {len(images)} images; give all of them."
            )
        height, width = images.shape[2:]
        for size in sizes:
            if not (1 <= size[0] <= height and 1 <= size[1] <= width):
                raise ValueError(
                    f"sizes must be between 1x1 and the batch's {height}x{width}, got {tuple(size)}; give an image's "
                    f"size in pixels without its padding."
                )


def stage_windows(window_size: int | Sequence[int | Sequence[int]], num_stages: int) -> list[Size]:
    """The window of each stage.

    Args:
        window_size: one number, a pair (height, width), or a number or pair for each stage, in tokens.
        num_stages: number of stages.

    Raises:
        ValueError: neither form, or a window without tokens.
    """
    if isinstance(window_size, int):
        entries: list[int | Sequence[int]] = [window_size] * num_stages
    elif len(window_size) == 2 and all(isinstance(entry, int) for entry in window_size):
        entries = [cast(Sequence[int], window_size)] * num_stages
    else:
        entries = list(window_size)
    pairs = [(entry, entry) if isinstance(entry, int) else tuple(entry) for entry in entries]
    if len(pairs) != num_stages or any(len(pair) != 2 or min(pair) < 1 for pair in pairs):
        raise ValueError(
            f"{_KEY}.window_size must be a whole number from 1 up, a pair (height, width) or one of these for each of "
            f"the {num_stages} stages, got {window_size}; 7 and 12 are the published ones."
        )
    return [(pair[0], pair[1]) for pair in pairs]


def _check(
    counts: Mapping[str, int],
    rates: Mapping[str, float],
    depths: Sequence[int],
    num_heads: Sequence[int],
    absolute_pos_embed: Sequence[int] | None,
) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{_KEY}.{name} must be at least 1, got {count}; give a whole number from 1 up.")
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise ValueError(f"{_KEY}.{name} must be between 0 and 1, got {rate}; give a fraction, 0 for none.")
    if not depths or len(depths) != len(num_heads):
        raise ValueError(
            f"{_KEY}.depths and num_heads must have one entry per stage, got {len(depths)} depths and "
            f"{len(num_heads)} heads; give lists of one length."
        )
    if min(depths) < 1:
        raise ValueError(f"{_KEY}.depths must be at least 1 each, got {tuple(depths)}; leave empty stages out.")
    for i, heads in enumerate(num_heads):
        channels = counts["embed_dim"] * 2**i
        if heads < 1 or channels % heads:
            raise ValueError(
                f"{_KEY}.num_heads must divide the channels of each stage, got {heads} heads for {channels} channels; "
                f"change embed_dim or num_heads."
            )
    if absolute_pos_embed is not None and (len(absolute_pos_embed) != 2 or min(absolute_pos_embed) < 1):
        raise ValueError(
            f"{_KEY}.absolute_pos_embed must be a height and a width from 1 up, got {absolute_pos_embed}; give "
            f"those of the embedding in tokens, or null for none."
        )
