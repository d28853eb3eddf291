"""What the versions of Swin share: an encoder of images of any size, alone or several sizes in a batch.

Shapes: B images of ``in_channels`` x H x W pixels; stage i = 0, 1, ... works on a map of H_i x W_i tokens with
C_i = embed_dim * 2^i channels, H_i = ceil(H / stride_i), stride_i = patch_size * 2^i.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.position_bias import PositionBias
from src.layers.size import Size
from src.layers.window_attention import PaddedKeys, WindowAttention
from src.layers.windows import zero_outside
from src.models.features import FeatureSpec, cells
from src.models.settings import RecordsSettings
from src.models.swin_block import PatchEmbed, PatchMerging, Recompute, SwinBlock, SwinStage

_KEY = "model.model.encoder"


class SwinEncoder(RecordsSettings, nn.Module):
    """Stages of blocks on ever coarser maps, with a LayerNorm on the output of every stage.

    Args:
        attention: what makes a block's attention, with the arguments of ``WindowAttention``.
        position_bias: what makes a block's bias from the number of its stage (0 first), its window and its heads.
        norm_after: the norms stand after attention, MLP and the reduction of a merge (as in Swin V2), not before.
        embed_dim: number of channels of the first stage; each further stage has twice as many.
        depths: number of blocks of each stage.
        num_heads: number of attention heads of each stage; must divide its channels.
        window_size: height and width of a window, in tokens, in a form that ``stage_windows`` takes.
        patch_size: height and width of a patch, in pixels.
        in_channels: number of channels of an image.
        mlp_ratio: channels within an MLP, as a multiple of the stage's.
        qkv_bias: give queries and values a bias, and keys where ``attention`` does.
        shift_covered: keep the shift where a window covers the map.
        padded_keys: whether the zeros that fill the last windows take part as keys.
        absolute_pos_embed: height and width, in tokens, of a learned absolute position embedding; None: without one.
        drop_rate: dropout of tokens, attention outputs and MLPs, a fraction.
        attn_drop_rate: dropout of attention weights, a fraction.
        drop_path_rate: chance that an image skips a residual branch of the last block in training, a fraction; it
            rises linearly from 0 at the first block.
        windows_per_chunk: most windows that attention works on at once; None: all.

    Attributes:
        feature_specs: channels and stride of each output.
        takes_sizes: True, images of several sizes may share a batch.

    Raises:
        ValueError: an argument is out of range or does not fit the others.
    """

    takes_sizes = True

    def __init__(
        self,
        attention: Callable[..., WindowAttention],
        position_bias: Callable[[int, Size, int], PositionBias],
        norm_after: bool,
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        window_size: int | Sequence[int | Sequence[int]],
        patch_size: int,
        in_channels: int,
        mlp_ratio: float,
        qkv_bias: bool,
        shift_covered: bool,
        padded_keys: PaddedKeys,
        absolute_pos_embed: tuple[int, int] | None,
        drop_rate: float,
        attn_drop_rate: float,
        drop_path_rate: float,
        windows_per_chunk: int | None,
    ) -> None:
        super().__init__()
        windows = stage_windows(window_size, len(depths))
        _check(
            {"embed_dim": embed_dim, "patch_size": patch_size, "in_channels": in_channels},
            {"drop_rate": drop_rate, "attn_drop_rate": attn_drop_rate, "drop_path_rate": drop_path_rate},
            depths,
            num_heads,
            absolute_pos_embed,
        )
        dims = [embed_dim * 2**i for i in range(len(depths))]
        self.in_channels = in_channels
        self.feature_specs = tuple(FeatureSpec(dim, patch_size * 2**i) for i, dim in enumerate(dims))
        self.patch_embed = PatchEmbed(in_channels, embed_dim, patch_size)
        self.absolute_pos_embed = (
            None if absolute_pos_embed is None else nn.Parameter(torch.empty(1, embed_dim, *absolute_pos_embed))
        )
        self.drop = nn.Dropout(drop_rate)
        drop_paths = iter(torch.linspace(0, drop_path_rate, sum(depths), device="cpu").tolist())
        self.layers = nn.ModuleList()
        for i, (dim, depth, heads, window) in enumerate(zip(dims, depths, num_heads, windows, strict=True)):
            blocks = []
            for j in range(depth):
                attn = attention(
                    dim,
                    heads,
                    window,
                    position_bias(i, window, heads),
                    (window[0] // 2, window[1] // 2) if j % 2 else (0, 0),
                    shift_covered=shift_covered,
                    padded_keys=padded_keys,
                    qkv_bias=qkv_bias,
                    attn_drop_rate=attn_drop_rate,
                    drop_rate=drop_rate,
                    windows_per_chunk=windows_per_chunk,
                )
                blocks.append(SwinBlock(dim, attn, mlp_ratio, drop_rate, next(drop_paths), norm_after))
            self.layers.append(SwinStage(blocks, PatchMerging(dim, norm_after) if dim != dims[-1] else None))
            self.add_module(f"norm{i}", nn.LayerNorm(dim))
        self._initialise()

    @property
    def recompute(self) -> Recompute:
        """What the blocks make again for the backward pass to save memory; ``mlp`` in a new encoder.

        No result changes by it, so it is no argument, and neither settings nor checkpoints hold it. What each choice
        costs is told at ``src.models.swin_block.Recompute``.

        Raises:
            ValueError: it is set to something else than ``Recompute`` allows.
        """
        return self._blocks()[0].recompute

    @recompute.setter
    def recompute(self, what: Recompute) -> None:
        if what not in get_args(Recompute):
            raise ValueError(
                f"recompute must be one of {', '.join(get_args(Recompute))}, got {what!r}; set one of these."
            )
        for block in self._blocks():
            block.recompute = what

    def _blocks(self) -> list[SwinBlock]:
        return [cast(SwinBlock, block) for stage in self.layers for block in cast(SwinStage, stage).blocks]

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


def stage_windows(
    window_size: int | Sequence[int | Sequence[int]], num_stages: int, argument: str = "window_size", least: int = 1
) -> list[Size]:
    """The window of each stage.

    Args:
        window_size: one number, a pair (height, width), or a number or pair for each stage, in tokens.
        num_stages: number of stages.
        argument: the encoder's argument that this is, for the error.
        least: smallest height and width allowed, in tokens.

    Raises:
        ValueError: neither form, or a window below ``least``.
    """
    if isinstance(window_size, int):
        entries: list[int | Sequence[int]] = [window_size] * num_stages
    elif len(window_size) == 2 and all(isinstance(entry, int) for entry in window_size):
        entries = [cast(Sequence[int], window_size)] * num_stages
    else:
        entries = list(window_size)
    pairs = [(entry, entry) if isinstance(entry, int) else tuple(entry) for entry in entries]
    if len(pairs) != num_stages or any(len(pair) != 2 or min(pair) < least for pair in pairs):
        raise ValueError(
            f"{_KEY}.{argument} must be a whole number from {least} up, a pair (height, width) or one of these for "
            f"each of the {num_stages} stages, got {window_size}; give it in one of these forms."
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
