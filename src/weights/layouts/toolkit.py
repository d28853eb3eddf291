"""This toolkit's own names."""

from src.weights.layouts.layout import Layout, Row
from src.weights.layouts.microsoft import BLOCK

_ANYTHING = (Row("{*}", "{*}"),)
_PARTS = tuple(Row(f"{part}.{{*}}", f"{part}.{{*}}") for part in ("decoder", "auxiliary", "classifier"))

TOOLKIT = Layout(
    name="toolkit",
    encoder=_ANYTHING,
    rest=_PARTS,
    roots={"classifier": "encoder.", "encoder": "encoder.", "segmentor": "encoder."},
    dropped=(),
    marks=(f"{{root}}{BLOCK}.attn.position_bias.{{*}}",),
)

TOOLKIT_ENCODER = Layout(
    name="toolkit",
    encoder=_ANYTHING,
    rest=(),
    roots={"encoder": ""},
    dropped=(),
    marks=(f"{{root}}{BLOCK}.attn.position_bias.{{*}}",),
    is_alias=True,
)

TOOLKIT_HEADS = Layout(
    name="toolkit",
    encoder=_ANYTHING,
    rest=_PARTS,
    roots={"segmentor": "encoder."},
    dropped=(),
    marks=("{root}{*}", "decoder.conv_seg.weight"),
    is_alias=True,
)
"""Any encoder with a decoder of ours."""

TOOLKIT_SMP = Layout(
    name="toolkit",
    encoder=_ANYTHING,
    rest=_PARTS,
    roots={"segmentor": "encoder."},
    dropped=(),
    marks=("{root}{*}", "decoder.segmentation_head.0.weight"),
    is_alias=True,
)
"""Any encoder with a decoder of segmentation_models_pytorch."""

TOOLKIT_FOREIGN = Layout(
    name="toolkit",
    encoder=_ANYTHING,
    rest=_PARTS,
    roots={"segmentor": "encoder."},
    dropped=(),
    marks=("{root}{*}", "decoder.{*}"),
    absent=("segmentation_head.{*}",),
    is_alias=True,
)
"""Any encoder with any decoder: what is left when no other layout is known in a file."""
