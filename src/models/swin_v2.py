"""Swin Transformer, the second version."""

from collections.abc import Sequence
from typing import cast

from src.layers.cosine_attention import CosineAttention
from src.layers.position_bias import ContinuousBias
from src.layers.size import Size
from src.layers.window_attention import PaddedKeys
from src.models.settings import Settings
from src.models.swin_block import SwinBlock, SwinStage
from src.models.swin_encoder import SwinEncoder, stage_windows


class SwinTransformerV2(SwinEncoder):
    """Swin Transformer V2 with a LayerNorm on the output of every stage.

    It differs from the first version in cosine attention, a continuous position bias that follows to other windows, and
    norms after attention, MLP and the reduction of a merge.

    Source: Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", 2022, and the authors' code for
    classification, which knows one size of image. Three things to know where its outputs are to be met:

    - It makes a window no larger than the map at the size it is built for, and its shift is off there. Give
      ``window_size`` by stage for that: 8 in the last of four stages for a window of 16 on images of 256 pixels.
    - It lowers the logits of tokens of another region by 100 (transformers by 200); here they are left out altogether.
      With a logit scale near its limit of 100 the two can differ.
    - Where maps are padded, the zeros take part as keys, as in torchvision and transformers; the authors' code has no
      padding, and timm pads after the shift.

    Args:
        embed_dim: number of channels of the first stage; each further stage has twice as many.
        depths: number of blocks of each stage.
        num_heads: number of attention heads of each stage; must divide its channels.
        window_size: height and width of a window, in tokens: one number, a pair (height, width), or a number or pair
            for each stage. Two numbers are always a pair.
        pretrained_window_size: the window whose reach scales the offsets of the position bias, in the forms of
            ``window_size``: that of the pretraining, where the weights are used with another one. 0 or None: the
            stage's own window.
        patch_size: height and width of a patch, in pixels.
        in_channels: number of channels of an image.
        mlp_ratio: channels within an MLP, as a multiple of the stage's.
        qkv_bias: give queries and values a bias.
        shift_covered: keep the shift where a window covers the map; otherwise it is off along that axis, as in the
            published models.
        padded_keys: ``attend``: the zeros that fill the last windows take part as keys (as in the published models);
            ``mask``: they do not.
        absolute_pos_embed: height and width, in tokens, of a learned absolute position embedding; None: without one.
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
        window_size: int | Sequence[int | Sequence[int]] = 8,
        pretrained_window_size: int | Sequence[int | Sequence[int]] | None = None,
        patch_size: int = 4,
        in_channels: int = 3,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        shift_covered: bool = False,
        padded_keys: PaddedKeys = "attend",
        absolute_pos_embed: tuple[int, int] | None = None,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.3,
        windows_per_chunk: int | None = None,
    ) -> None:
        known = 0 if pretrained_window_size is None else pretrained_window_size
        pretrained = stage_windows(known, len(depths), "pretrained_window_size", least=0)
        super().__init__(
            CosineAttention,
            lambda stage, window, heads: ContinuousBias(window, heads, pretrained[stage]),
            norm_after=True,
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

    def set_pretrained_windows(self, windows: Sequence[Size]) -> None:
        """Says which windows the weights were trained with, where they are used with others; settings follow.

        Args:
            windows: height and width of each stage's window in the training, in tokens; 0 for its own.

        Raises:
            ValueError: not one window for each stage, or one without tokens along one axis.
        """
        for stage, window in zip(self.layers, windows, strict=True):
            for block in cast(SwinStage, stage).blocks:
                cast(ContinuousBias, cast(SwinBlock, block).attn.position_bias).set_pretrained_window(window)
        self.settings["init_args"]["pretrained_window_size"] = [list(window) for window in windows]

    def take_pretrained_windows(self, settings: Settings) -> None:
        """Takes over the windows of the pretraining that settings tell, whatever this encoder was built with.

        Where weights told their windows after a model had been built, its settings tell other ones than its config.

        Args:
            settings: of a segmenter; those of one with another encoder or another number of stages change nothing.

        Raises:
            ValueError: they tell windows that cannot be.
        """
        arguments = (settings.get("init_args", {}).get("encoder") or {}).get("init_args", {})
        recorded = arguments.get("pretrained_window_size")
        if recorded and len(arguments.get("depths", ())) == len(self.layers):
            windows = stage_windows(recorded, len(self.layers), "pretrained_window_size", least=0)
            self.set_pretrained_windows(windows)
            self.settings["init_args"]["pretrained_window_size"] = recorded  # in the form that it is compared in
