"""segmentation_models_pytorch's names for its UPerNet on timm's Swin, ``tu-swin_*``."""

from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.timm import FEATURES

_LATERAL = "decoder.fpn_lateral_blocks.{2-k}.conv_norm_relu"  # from coarse to fine
_PYRAMID = "decoder.fpn_conv_blocks.{2-k}"

SMP = Layout(
    name="smp",
    encoder=FEATURES,
    rest=(
        Row("decoder.feature_norms.{i}", "encoder.norm{i}"),
        Row("decoder.psp.blocks.{k}.1.0", "decoder.psp_modules.{k}.1.conv"),
        Row("decoder.psp.blocks.{k}.1.1", "decoder.psp_modules.{k}.1.bn"),
        Row("decoder.psp.out_conv.0", "decoder.bottleneck.conv"),
        Row("decoder.psp.out_conv.1", "decoder.bottleneck.bn"),
        Row(f"{_LATERAL}.0", "decoder.lateral_convs.{k}.conv"),
        Row(f"{_LATERAL}.1", "decoder.lateral_convs.{k}.bn"),
        Row(f"{_PYRAMID}.0", "decoder.fpn_convs.{k}.conv"),
        Row(f"{_PYRAMID}.1", "decoder.fpn_convs.{k}.bn"),
        Row("decoder.fusion_block.0", "decoder.fpn_bottleneck.conv"),
        Row("decoder.fusion_block.1", "decoder.fpn_bottleneck.bn"),
        Row("segmentation_head.0", "decoder.conv_seg"),
    ),
    roots={"segmentor": "encoder.model."},
    marks=(
        "{root}patch_embed.proj.weight",
        "{root}layers_0.blocks.0.attn.qkv.weight",
        "decoder.feature_norms.3.weight",
    ),
)
