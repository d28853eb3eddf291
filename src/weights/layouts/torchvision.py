"""torchvision's names for Swin, versions 1 and 2."""

from dataclasses import replace

from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.reordering import KEY_BIAS

_BLOCK = "features.{2i+1}.{j}"
_OURS = "layers.{i}.blocks.{j}"

_SHARED = (
    Row("features.0.0", "patch_embed.proj"),
    Row("features.0.2", "patch_embed.norm"),
    Row(f"{_BLOCK}.norm1", f"{_OURS}.norm1"),
    Row(f"{_BLOCK}.attn.proj", f"{_OURS}.attn.proj"),
    Row(f"{_BLOCK}.norm2", f"{_OURS}.norm2"),
    Row(f"{_BLOCK}.mlp.0", f"{_OURS}.mlp.fc1"),
    Row(f"{_BLOCK}.mlp.3", f"{_OURS}.mlp.fc2"),
    Row("features.{2i+2}.reduction", "layers.{i}.downsample.reduction"),
    Row("features.{2i+2}.norm", "layers.{i}.downsample.norm"),
)
_MARKS = ("{root}features.0.0.weight", "{root}features.2.reduction.weight")

TORCHVISION = Layout(
    name="torchvision",
    encoder=(
        *_SHARED,
        Row(f"{_BLOCK}.attn.qkv", f"{_OURS}.attn.qkv"),
        Row(f"{_BLOCK}.attn.relative_position_bias_table", f"{_OURS}.attn.position_bias.relative_position_bias_table"),
    ),
    rest=(Row("norm", "classifier.norm"), Row("head", "classifier.head")),
    roots={"classifier": "", "encoder": ""},
    marks=(*_MARKS, "{root}features.1.0.attn.relative_position_bias_table"),
    version=1,
)

TORCHVISION_V2 = replace(
    TORCHVISION,
    encoder=(
        *_SHARED,
        Row(f"{_BLOCK}.attn.qkv.weight", f"{_OURS}.attn.qkv.weight"),
        Row(f"{_BLOCK}.attn.qkv.bias", (f"{_OURS}.attn.q_bias", f"{_OURS}.attn.v_bias"), KEY_BIAS),
        Row(f"{_BLOCK}.attn.logit_scale", f"{_OURS}.attn.logit_scale"),
        Row(f"{_BLOCK}.attn.cpb_mlp.0", f"{_OURS}.attn.position_bias.mlp.0"),
        Row(f"{_BLOCK}.attn.cpb_mlp.2", f"{_OURS}.attn.position_bias.mlp.2"),
    ),
    marks=(*_MARKS, "{root}features.1.0.attn.logit_scale"),
    version=2,
)
