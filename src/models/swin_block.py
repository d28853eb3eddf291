"""The parts of a Swin stage: block, MLP, patch embedding, patch merging.

Shapes: B images, a map of H x W tokens with C channels. Sizes are (height, width) in tokens.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import StochasticDepth

from src.layers.size import Size
from src.layers.window_attention import WindowAttention
from src.layers.windows import zero_outside


class SwinBlock(nn.Module):
    """Attention and MLP, each with a norm and beside a residual path.

    Args:
        dim: number of channels C.
        attn: attention on maps ``(B, H, W, C)``.
        mlp_ratio: channels within the MLP, as a multiple of ``dim``.
        drop_rate: dropout within the MLP, a fraction.
        drop_path_rate: chance that an image skips a residual branch in training, a fraction.
        norm_after: a branch's norm stands at its end (as in Swin V2), not at its beginning; a new block then gives what
            it is given.
    """

    def __init__(
        self,
        dim: int,
        attn: WindowAttention,
        mlp_ratio: float = 4.0,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        norm_after: bool = False,
    ) -> None:
        super().__init__()
        self.norm_after = norm_after
        self.norm1 = nn.LayerNorm(dim)
        self.attn = attn
        self.norm2 = nn.LayerNorm(dim)
        if norm_after:  # both branches start at nothing
            nn.init.zeros_(self.norm1.weight)
            nn.init.zeros_(self.norm2.weight)
        self.mlp = Mlp(dim, int(mlp_ratio * dim), drop_rate)
        self.drop_path = StochasticDepth(drop_path_rate, "row")

    def forward(self, x: Tensor, sizes: Sequence[Size] | None = None) -> Tensor:
        """One block.

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; None: the map's.
        """
        if self.norm_after:
            x = x + self.drop_path(self.norm1(self.attn(x, sizes)))
            return x + self.drop_path(self.norm2(self.mlp(x)))
        x = x + self.drop_path(self.attn(self.norm1(x), sizes))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class Mlp(nn.Module):
    """Two linear layers with a GELU between them.

    Args:
        dim: number of channels in and out.
        hidden_dim: number of channels between.
        drop_rate: dropout after each layer, a fraction.
    """

    def __init__(self, dim: int, hidden_dim: int, drop_rate: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, x: Tensor) -> Tensor:
        """Maps ``(..., dim)`` to ``(..., dim)``."""
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class PatchEmbed(nn.Module):
    """Cuts images into patches and embeds each; images are first padded with zeros at the bottom and the right.

    Args:
        in_channels: number of channels of an image.
        dim: number of channels of a token.
        patch_size: height and width of a patch, in pixels.
    """

    def __init__(self, in_channels: int, dim: int, patch_size: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(in_channels, dim, patch_size, patch_size)
        self.norm = nn.LayerNorm(dim)

    def forward(self, images: Tensor) -> Tensor:
        """Tokens ``(B, ceil(H / patch_size), ceil(W / patch_size), C)`` of images ``(B, in_channels, H, W)``."""
        patch = self.proj.stride[0]
        height, width = images.shape[2:]
        if height % patch or width % patch:
            images = F.pad(images, (0, -width % patch, 0, -height % patch))
        return self.norm(self.proj(images).permute(0, 2, 3, 1))


class PatchMerging(nn.Module):
    """Joins each 2 x 2 tokens into one with twice the channels; odd maps are first padded with zeros.

    The four tokens are concatenated column by column: top left, bottom left, top right, bottom right.

    Args:
        dim: number of channels C coming in.
        norm_after: the norm stands after the reduction to twice the channels (as in Swin V2), not before it.
    """

    def __init__(self, dim: int, norm_after: bool = False) -> None:
        super().__init__()
        self.norm_after = norm_after
        self.norm = nn.LayerNorm(2 * dim if norm_after else 4 * dim)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: Tensor, sizes: Sequence[Size] | None = None) -> Tensor:
        """Halves a map.

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; None: the map's.

        Returns:
            Map ``(B, ceil(H / 2), ceil(W / 2), 2 C)``.
        """
        x = zero_outside(x, sizes)
        height, width = x.shape[1:3]
        if height % 2 or width % 2:
            x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        x = torch.cat([x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)], -1)  # (B, H / 2, W / 2, 4 C)
        return self.norm(self.reduction(x)) if self.norm_after else self.reduction(self.norm(x))


class SwinStage(nn.Module):
    """The blocks of one resolution and the merging that follows them.

    Args:
        blocks: blocks on maps of one size.
        downsample: what makes the next stage's map; None at the last stage.
    """

    def __init__(self, blocks: Sequence[SwinBlock], downsample: PatchMerging | None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.downsample = downsample

    def forward(self, x: Tensor, sizes: Sequence[Size] | None = None) -> tuple[Tensor, Tensor]:
        """The stage's map and the next stage's (the same where there is none).

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; None: the map's.
        """
        for block in self.blocks:
            x = block(x, sizes)
        return x, x if self.downsample is None else self.downsample(x, sizes)
