"""timm's names for Swin, versions 1 and 2, since its merges stand at the start of a stage."""

from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.microsoft import BLOCKS, STEM

_ENCODER = (
    *STEM,
    *BLOCKS,
    Row("layers.{i+1}.downsample.reduction", "layers.{i}.downsample.reduction"),
    Row("layers.{i+1}.downsample.norm", "layers.{i}.downsample.norm"),
)

FEATURES = tuple(Row(str(row.theirs).replace("layers.", "layers_"), row.ours) for row in _ENCODER)
"""The encoder as ``features_only`` spells it."""

TIMM_FEATURES = Layout(
    name="timm",
    encoder=FEATURES,
    rest=(),
    roots={"encoder": ""},
    marks=("{root}patch_embed.proj.weight", "{root}layers_0.blocks.0.attn.qkv.weight"),
)

TIMM = Layout(
    name="timm",
    encoder=_ENCODER,
    rest=(
        Row("norm", "classifier.norm"),
        Row("head.fc", "classifier.head"),
    ),
    roots={"classifier": "", "encoder": ""},
    marks=("{root}patch_embed.proj.weight", "{root}layers.1.downsample.reduction.weight"),
    # else one of Microsoft's that is damaged
    absent=("{root}layers.0.downsample.{*}",),
)
