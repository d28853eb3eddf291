"""The names of the authors' code for segmentation: Microsoft's below ``backbone.``, norms of the outputs, heads."""

from src.weights.layouts.heads import heads
from src.weights.layouts.layout import Layout, Row, same
from src.weights.layouts.microsoft import BLOCKS, MERGES, STEM
from src.weights.layouts.reordering import GRID

OFFICIAL = Layout(
    name="official",
    encoder=(
        *STEM,
        *BLOCKS,
        *MERGES,
        Row("absolute_pos_embed", "absolute_pos_embed", GRID),
        *same("norm{i}"),
    ),
    rest=heads(),
    roots={"encoder": "", "segmentor": "backbone."},
    marks=("{root}patch_embed.proj.weight", "{root}layers.0.downsample.reduction.weight", "{root}norm{i}.weight"),
)
