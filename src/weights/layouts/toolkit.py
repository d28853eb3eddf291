"""This toolkit's own names."""

from dataclasses import replace

from src.weights.layouts.layout import Layout, same
from src.weights.layouts.microsoft import BLOCK

TOOLKIT = Layout(
    name="toolkit",
    encoder=same("{*}"),
    rest=same("decoder.{*}", "auxiliary.{*}", "classifier.{*}"),
    roots={"classifier": "encoder.", "encoder": "encoder.", "segmentor": "encoder."},
    dropped=(),
    marks=(f"{{root}}{BLOCK}.attn.position_bias.{{*}}",),
)

TOOLKIT_ENCODER = replace(TOOLKIT, rest=(), roots={"encoder": ""}, is_alias=True)

TOOLKIT_HEADS = replace(
    TOOLKIT, roots={"segmentor": "encoder."}, marks=("{root}{*}", "decoder.conv_seg.weight"), is_alias=True
)
"""Any encoder with a decoder of ours."""

TOOLKIT_FOREIGN = replace(TOOLKIT_HEADS, marks=("{root}{*}", "decoder.{*}"), absent=("segmentation_head.{*}",))
"""Any encoder with any decoder: what is left when no other layout is known in a file."""
