"""Microsoft's names for Swin as a classifier, versions 1 and 2; timm had the same in its old releases."""

from src.weights.layouts.layout import Layout, Row, same
from src.weights.layouts.reordering import ROW

BLOCK = "layers.{i}.blocks.{j}"

BLOCKS = (
    *same(*(f"{BLOCK}.{part}" for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"))),
    Row(f"{BLOCK}.attn.relative_position_bias_table", f"{BLOCK}.attn.position_bias.relative_position_bias_table"),
    # version 2
    *same(*(f"{BLOCK}.attn.{part}" for part in ("q_bias", "v_bias", "logit_scale"))),
    Row(f"{BLOCK}.attn.cpb_mlp.0", f"{BLOCK}.attn.position_bias.mlp.0"),
    Row(f"{BLOCK}.attn.cpb_mlp.2", f"{BLOCK}.attn.position_bias.mlp.2"),
)

STEM = same("patch_embed.proj", "patch_embed.norm")

MERGES = same("layers.{i}.downsample.reduction", "layers.{i}.downsample.norm")

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
