"""The names of UPerNet and of a fully convolutional head, as OpenMMLab spells them and those who follow it."""

from src.weights.layouts.layout import Row


def heads(norm: str = "bn", classifier: str = "conv_seg") -> tuple[Row, ...]:
    """The table of the decoder and the auxiliary head.

    Args:
        norm: their name of the norm after a convolution, ``bn`` in ours.
        classifier: their name of the classifier, ``conv_seg`` in ours.
    """
    blocks = {
        "decode_head": ("psp_modules.{k}.1", "bottleneck", "lateral_convs.{k}", "fpn_convs.{k}", "fpn_bottleneck"),
        "auxiliary_head": ("convs.{k}",),
    }
    rows = []
    for theirs, ours in (("decode_head", "decoder"), ("auxiliary_head", "auxiliary")):
        for block in blocks[theirs]:
            rows.append(Row(f"{theirs}.{block}.conv", f"{ours}.{block}.conv"))
            rows.append(Row(f"{theirs}.{block}.{norm}", f"{ours}.{block}.bn"))
        rows.append(Row(f"{theirs}.{classifier}", f"{ours}.conv_seg"))
    return tuple(rows)
