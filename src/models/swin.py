"""Swin Transformer, the first version, and the published sizes of both."""

from collections.abc import Sequence
from typing import NamedTuple

from src.layers.position_bias import TableBias
from src.layers.window_attention import PaddedKeys, WindowAttention
from src.models.swin_encoder import SwinEncoder


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
"""The published sizes by name, those of version 2 as well."""


class SwinTransformer(SwinEncoder):
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
        super().__init__(
            WindowAttention,
            lambda stage, window, heads: TableBias(window, heads, bias_init_std),
            norm_after=False,
            embed_dim=embed_dim,
            depths=depths,
            num_heads=num_heads,
            window_size=window_size,
            patch_size=patch_size,
            in_channels=in_channels,
            mlp_ratio=mlp_ratio,
            qkv_bias=qkv_bias,
            shift_covered=shift_covered,
            padded_keys=padded_keys,
            absolute_pos_embed=absolute_pos_embed,
            drop_rate=drop_rate,
            attn_drop_rate=attn_drop_rate,
            drop_path_rate=drop_path_rate,
            windows_per_chunk=windows_per_chunk,
        )
