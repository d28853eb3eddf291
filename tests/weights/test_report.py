"""The table that loading weights prints."""

from src.weights.report import Adaptation, WeightsReport

TABLE = "relative_position_bias_table"


def report(**changes) -> WeightsReport:
    values = {
        "source": "swin.pth",
        "layout": "microsoft (classifier, Swin V1)",
        "loaded": ("encoder.a.weight", "encoder.b.weight", "decoder.c"),
        "promised": ("encoder.a.weight", "encoder.b.weight", "encoder.d", "decoder.c"),
    }
    return WeightsReport(**values | changes)


def test_coverage_is_the_share_of_what_is_promised():
    assert report().missing == ("encoder.d",)
    assert report().coverage == 0.75
    assert report(promised=()).coverage == 0


def test_the_table_says_it_all():
    text = str(
        report(
            adapted=(
                *(Adaptation(f"encoder.layers.{i}.{TABLE}", "window 7x7 -> 12x12 (bicubic)") for i in range(12)),
                Adaptation("decoder.conv_seg.weight", "classes 150 -> 3 (2 by name)"),
            ),
            new=("encoder.norm0.weight", "encoder.norm0.bias", "encoder.norm1.weight"),
            new_classes=("pole",),
            left_over=("classifier.head.weight", "classifier.head.bias"),
            notes=("the average was taken",),
        )
    )
    assert text.splitlines() == [
        "weights: swin.pth",
        "  layout      microsoft (classifier, Swin V1)",
        "  loaded      encoder 2 of 3, decoder 1 of 1 (75% of what the layout promises)",
        "  adapted     window 7x7 -> 12x12 (bicubic), 12 times",
        "  adapted     classes 150 -> 3 (2 by name)",
        "  new         1 class (pole); encoder.norm* (3)",
        "  left over   the image classifier (2)",
        "  note        the average was taken",
    ]


def test_what_is_not_there_has_no_line():
    assert len(str(report()).splitlines()) == 3


def test_long_lists_are_cut():
    text = str(report(left_over=tuple(f"{letter}.weight" for letter in "abcdefg")))
    assert "left over   a; b; c; d; 3 more kinds" in text
