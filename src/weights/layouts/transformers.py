"""transformers' names for Swin, versions 1 and 2, and for UPerNet.

It saves the names of the Hub and translates them on loading; release 5 has others in memory.
"""

from src.weights.layouts.heads import heads
from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.reordering import FUSED, ROW

_BLOCK = "encoder.layers.{i}.blocks.{j}"
_OURS = "layers.{i}.blocks.{j}"
_SELF = f"{_BLOCK}.attention.self"

_AROUND = (
    Row("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    Row("embeddings.norm", "patch_embed.norm"),
    Row(f"{_BLOCK}.layernorm_before", f"{_OURS}.norm1"),
    Row(f"{_BLOCK}.layernorm_after", f"{_OURS}.norm2"),
    Row("encoder.layers.{i}.downsample.reduction", "layers.{i}.downsample.reduction"),
    Row("encoder.layers.{i}.downsample.norm", "layers.{i}.downsample.norm"),
)
_POSITION = Row("embeddings.position_embeddings", "absolute_pos_embed", ROW)
_ON_THE_HUB = (
    *_AROUND,
    Row(f"{_BLOCK}.attention.output.dense", f"{_OURS}.attn.proj"),
    Row(f"{_BLOCK}.intermediate.dense", f"{_OURS}.mlp.fc1"),
    Row(f"{_BLOCK}.output.dense", f"{_OURS}.mlp.fc2"),
)
_ENCODER = (
    *_ON_THE_HUB,
    _POSITION,
    Row((f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value"), f"{_OURS}.attn.qkv", FUSED),
    Row(f"{_SELF}.relative_position_bias_table", f"{_OURS}.attn.position_bias.relative_position_bias_table"),
)
_HEADS = heads(norm="batch_norm", classifier="classifier")
_STEM = "{root}embeddings.patch_embeddings.projection.weight"
_STAGE_NORM = "{root}hidden_states_norms.stage{i}.weight"

TRANSFORMERS_BACKBONE = Layout(
    name="transformers",
    encoder=(*_ENCODER, Row("hidden_states_norms.stage{i+1}", "norm{i}")),
    # release 5 saves a last norm that its backbone does not use
    rest=(*_HEADS, Row("{root}swin.layernorm", "classifier.norm")),
    roots={"encoder": "", "segmentor": "backbone."},
    marks=(_STEM, f"{{root}}{_SELF}.relative_position_bias_table", _STAGE_NORM),
    version=1,
)

TRANSFORMERS = Layout(
    name="transformers",
    encoder=_ENCODER,
    rest=(Row("{root}layernorm", "classifier.norm"), Row("classifier", "classifier.head")),
    roots={"classifier": "swin.", "encoder": ""},
    marks=(_STEM, f"{{root}}{_SELF}.relative_position_bias_table"),
    version=1,
)

TRANSFORMERS_V2 = Layout(
    name="transformers",
    encoder=(
        *_ON_THE_HUB,
        Row(
            (f"{_SELF}.query.weight", f"{_SELF}.key.weight", f"{_SELF}.value.weight"),
            f"{_OURS}.attn.qkv.weight",
            FUSED,
        ),
        Row(f"{_SELF}.query.bias", f"{_OURS}.attn.q_bias"),
        Row(f"{_SELF}.value.bias", f"{_OURS}.attn.v_bias"),
        Row(f"{_SELF}.logit_scale", f"{_OURS}.attn.logit_scale"),
        Row(f"{_SELF}.continuous_position_bias_mlp.0", f"{_OURS}.attn.position_bias.mlp.0"),
        Row(f"{_SELF}.continuous_position_bias_mlp.2", f"{_OURS}.attn.position_bias.mlp.2"),
    ),
    # its backbone has no norms of the outputs, so a UPerNet on it is read, but none of ours can be written
    rest=(*_HEADS, Row("{root}layernorm", "classifier.norm"), Row("classifier", "classifier.head")),
    roots={"classifier": "swinv2.", "encoder": ""},
    marks=(_STEM, f"{{root}}{_SELF}.logit_scale"),
    further_roots=("backbone.",),
    version=2,
)

TRANSFORMERS_IN_MEMORY = Layout(
    name="transformers",
    encoder=(
        *_AROUND,
        _POSITION,
        Row(
            tuple(f"{_BLOCK}.attention.{letter}_proj" for letter in "qkv"),
            f"{_OURS}.attn.qkv",
            FUSED,
        ),
        Row(
            f"{_BLOCK}.attention.relative_position_bias.relative_position_bias_table",
            f"{_OURS}.attn.position_bias.relative_position_bias_table",
        ),
        Row(f"{_BLOCK}.attention.o_proj", f"{_OURS}.attn.proj"),
        Row(f"{_BLOCK}.mlp.fc1", f"{_OURS}.mlp.fc1"),
        Row(f"{_BLOCK}.mlp.fc2", f"{_OURS}.mlp.fc2"),
    ),
    rest=(
        *_HEADS,
        Row("backbone.hidden_states_norms.stage{i+1}", "encoder.norm{i}"),
        Row("hidden_states_norms.stage{i+1}", "encoder.norm{i}"),
        Row("{root}layernorm", "classifier.norm"),
        Row("classifier", "classifier.head"),
    ),
    roots={"classifier": "swin.", "encoder": "", "segmentor": "backbone.swin."},
    marks=(_STEM, f"{{root}}{_BLOCK}.attention.relative_position_bias.relative_position_bias_table"),
    version=1,
    is_alias=True,
)
