"""The parts of a Swin stage: block, MLP, patch embedding, patch merging.

Shapes: B images, a map of H x W tokens with C channels. Sizes are (height, width) in tokens.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from src.layers.drop_path import DropPath
from src.layers.size import Size
from src.layers.untouched import untouched
from src.layers.window_attention import WindowAttention
from src.layers.windows import zero_outside

Recompute = Literal["nothing", "selective", "mlp", "blocks"]
"""What the backward pass makes again: nothing; norms and GELU; besides these the MLP up to its last layer; blocks.

After its forward pass on 2 images of 512x512 Swin-T holds 1152, 808, 580 or 163 MiB, and forward and backward take 1,
1.07, 1.07 or 1.24 times as long (median of 7 rounds on 2 cores with AVX-512). A GPU is not measured.
"""

_CPU_PIECE, _DEVICE_PIECE = 2**23, 2**28  # bytes between the layers of an MLP; the second is not measured


class SwinBlock(nn.Module):
    """Attention and MLP, each with a norm and beside a residual path.

    What the backward pass needs is kept, or made again where that saves memory; no number changes by it, and where no
    gradient is wanted it has no meaning. It is an attribute and no argument, for it says nothing of the model.

    Args:
        dim: number of channels C.
        attn: attention on maps ``(B, H, W, C)``.
        mlp_ratio: channels within the MLP, as a multiple of ``dim``.
        drop_rate: dropout within the MLP, a fraction.
        drop_path_rate: chance that an image skips a residual branch in training, a fraction.
        norm_after: a branch's norm stands at its end (as in Swin V2), not at its beginning; a new block then gives what
            it is given.

    Attributes:
        recompute: what is made again, see ``Recompute``.
    """

    recompute: Recompute = "mlp"

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
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, x: Tensor, sizes: Sequence[Size] | None = None) -> Tensor:
        """One block.

        Args:
            x: map ``(B, H, W, C)``.
            sizes: true height and width of each image, in tokens; None: the map's.
        """
        if self._recomputes("blocks"):
            return checkpoint(self._both, x, sizes, use_reentrant=False)
        return self._both(x, sizes)

    def _recomputes(self, *what: Recompute) -> bool:
        return self.recompute in what and self.training and torch.is_grad_enabled()

    def _both(self, x: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        if self.norm_after:
            x = x + self.drop_path(self.norm1(self.attn(x, sizes)))
        else:
            x = x + self.drop_path(self.attn(x, sizes, self.norm1, self._recomputes("selective", "mlp")))
        if torch.is_grad_enabled() or self.training or torch.compiler.is_compiling():
            return x + self.drop_path(self._mlp_branch(x))
        return self._with_mlp_in_pieces(x)

    def _mlp_branch(self, x: Tensor) -> Tensor:
        norm = None if self.norm_after else self.norm2
        if self._recomputes("mlp"):
            branch = checkpoint(self.mlp, x, norm, use_reentrant=False, preserve_rng_state=self.mlp.drop.p > 0)
        else:
            branch = self.mlp(x, norm, self._recomputes("selective"))
        return self.norm2(branch) if self.norm_after else branch

    def _with_mlp_in_pieces(self, x: Tensor) -> Tensor:
        """Adds the MLP to a map that nobody else holds, so that little of the wide map between its layers exists."""
        x = x.contiguous()
        tokens = x.view(-1, x.shape[-1])
        row_bytes = self.mlp.fc1.out_features * x.element_size()
        piece_bytes = _CPU_PIECE if x.device.type == "cpu" else _DEVICE_PIECE
        count = -(-len(tokens) * row_bytes // piece_bytes)
        for part in tokens.tensor_split(
            max(1, min(count, len(tokens)))
        ):  # of about one size, for a small rest would be slow
            part += self._mlp_branch(part)
        return x


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

    def forward(self, x: Tensor, norm: nn.Module | None = None, recompute: bool = False) -> Tensor:
        """Maps ``(..., dim)`` to ``(..., dim)``.

        Args:
            x: tokens.
            norm: what stands before the first layer; None: nothing.
            recompute: make the outputs of norm and GELU again for the backward pass and do not keep them; no product
                of matrices is made twice.
        """
        if not recompute:
            return self.drop(self._activated(self._first(x, norm)))
        # each ends in a layer whose output is not needed: the second run stops before it
        if norm is None:
            hidden = self._first(x, norm)
        else:
            hidden = checkpoint(self._first, x, norm, use_reentrant=False, preserve_rng_state=False)
        out = checkpoint(self._activated, hidden, use_reentrant=False, preserve_rng_state=self.drop.p > 0)
        return self.drop(out)

    def _first(self, x: Tensor, norm: nn.Module | None) -> Tensor:
        return self.fc1(x if norm is None else norm(x))

    def _activated(self, hidden: Tensor) -> Tensor:
        return self.fc2(self.drop(F.gelu(hidden)))


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
        batch, channels, height, width = images.shape
        if torch.compiler.is_compiling() or height % patch or width % patch:
            images = F.pad(images, (0, -width % patch, 0, -height % patch))
        if not untouched(self.proj, nn.Conv2d):
            return self.norm(self.proj(images).permute(0, 2, 3, 1))
        # a product of matrices, which needs no copy before the norm and takes 0.6 of the convolution's time
        patches = images.reshape(batch, channels, -(-height // patch), patch, -(-width // patch), patch)
        patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(3)  # (B, H / patch, W / patch, in_channels * patch^2)
        return self.norm(F.linear(patches, self.proj.weight.flatten(1), self.proj.bias))


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
        if torch.compiler.is_compiling() or height % 2 or width % 2:
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
