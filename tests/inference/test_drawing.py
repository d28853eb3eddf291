import numpy as np
import pytest

from src.inference.drawing import coloured, overlaid, palette_image

PALETTE = ((10, 20, 30), (200, 100, 0))
LABELS = np.array([[0, 1, 255]])


def test_colours_by_label_and_black_where_there_is_no_class():
    assert coloured(LABELS, PALETTE).tolist() == [[[10, 20, 30], [200, 100, 0], [0, 0, 0]]]


def test_an_overlay_mixes_by_opacity():
    image = np.full((1, 3, 3), 100, np.uint8)
    assert overlaid(image, LABELS, PALETTE, opacity=0.25)[0, 0].tolist() == [78, 80, 83]
    assert np.array_equal(overlaid(image, LABELS, PALETTE, opacity=0.0), image)
    assert np.array_equal(overlaid(image, LABELS, PALETTE, opacity=1.0), coloured(LABELS, PALETTE))


def test_an_indexed_picture_stores_the_labels_themselves():
    picture = palette_image(LABELS, PALETTE)
    assert picture.mode == "P"
    assert np.array_equal(np.asarray(picture), LABELS)
    assert np.array_equal(np.asarray(picture.convert("RGB")), coloured(LABELS, PALETTE))


def test_more_classes_than_a_byte_numbers_are_refused():
    with pytest.raises(ValueError, match="at most 256 classes, got 257"):
        palette_image(LABELS, [(0, 0, 0)] * 257)
