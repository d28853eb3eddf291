"""OpenMMLab's names for Swin: mmsegmentation, and the same encoder in mmdetection."""

from src.weights.layouts.heads import heads
from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.reordering import ROW, UNFOLDED

_BLOCK = "stages.{i}.blocks.{j}"
_OURS = "layers.{i}.blocks.{j}"

MMSEG = Layout(
    name="mmseg",
    encoder=(
        Row("patch_embed.projection", "patch_embed.proj"),
        Row("patch_embed.norm", "patch_embed.norm"),
        Row("absolute_pos_embed", "absolute_pos_embed", ROW),
        Row(f"{_BLOCK}.norm1", f"{_OURS}.norm1"),
        Row(f"{_BLOCK}.attn.w_msa.qkv", f"{_OURS}.attn.qkv"),
        Row(
            f"{_BLOCK}.attn.w_msa.relative_position_bias_table",
            f"{_OURS}.attn.position_bias.relative_position_bias_table",
        ),
        Row(f"{_BLOCK}.attn.w_msa.proj", f"{_OURS}.attn.proj"),
        Row(f"{_BLOCK}.norm2", f"{_OURS}.norm2"),
        Row(f"{_BLOCK}.ffn.layers.0.0", f"{_OURS}.mlp.fc1"),
        Row(f"{_BLOCK}.ffn.layers.1", f"{_OURS}.mlp.fc2"),
        Row("stages.{i}.downsample.reduction", "layers.{i}.downsample.reduction", UNFOLDED),
        Row("stages.{i}.downsample.norm", "layers.{i}.downsample.norm", UNFOLDED),
        Row("norm{i}", "norm{i}"),
    ),
    # the classifier's norm stands in files converted from ImageNet
    rest=(*heads(), Row("{root}norm", "classifier.norm")),
    roots={"encoder": "", "segmentor": "backbone."},
    marks=("{root}patch_embed.projection.weight", f"{{root}}{_BLOCK}.attn.w_msa.qkv.weight"),
    # mmpretrain's version 2, whose merge has its norm after the reduction
    absent=(f"{{root}}{_BLOCK}.attn.w_msa.logit_scale",),
    version=1,
)
