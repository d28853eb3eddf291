"""Microsoft's names for Swin as a classifier, versions 1 and 2; timm had the same in its old releases."""

from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.reordering import ROW

BLOCK = "layers.{i}.blocks.{j}"

BLOCKS = (
    Row(f"{BLOCK}.norm1", f"{BLOCK}.norm1"),
    Row(f"{BLOCK}.attn.qkv", f"{BLOCK}.attn.qkv"),
    Row(f"{BLOCK}.attn.relative_position_bias_table", f"{BLOCK}.attn.position_bias.relative_position_bias_table"),
    Row(f"{BLOCK}.attn.proj", f"{BLOCK}.attn.proj"),
    Row(f"{BLOCK}.norm2", f"{BLOCK}.norm2"),
    Row(f"{BLOCK}.mlp.fc1", f"{BLOCK}.mlp.fc1"),
    Row(f"{BLOCK}.mlp.fc2", f"{BLOCK}.mlp.fc2"),
    # version 2
    Row(f"{BLOCK}.attn.q_bias", f"{BLOCK}.attn.q_bias"),
    Row(f"{BLOCK}.attn.v_bias", f"{BLOCK}.attn.v_bias"),
    Row(f"{BLOCK}.attn.logit_scale", f"{BLOCK}.attn.logit_scale"),
    Row(f"{BLOCK}.attn.cpb_mlp.0", f"{BLOCK}.attn.position_bias.mlp.0"),
    Row(f"{BLOCK}.attn.cpb_mlp.2", f"{BLOCK}.attn.position_bias.mlp.2"),
)

STEM = (
    Row("patch_embed.proj", "patch_embed.proj"),
    Row("patch_embed.norm", "patch_embed.norm"),
)

MERGES = (
    Row("layers.{i}.downsample.reduction", "layers.{i}.downsample.reduction"),
    Row("layers.{i}.downsample.norm", "layers.{i}.downsample.norm"),
)

MICROSOFT = Layout(
    name="microsoft",
    encoder=(*STEM, *BLOCKS, *MERGES, Row("absolute_pos_embed", "absolute_pos_embed", ROW)),
    rest=(
        Row("norm", "classifier.norm"),
        Row("head", "classifier.head"),
    ),
    roots={"classifier": "", "encoder": ""},
    marks=("{root}patch_embed.proj.weight", "{root}layers.0.downsample.reduction.weight"),
)
