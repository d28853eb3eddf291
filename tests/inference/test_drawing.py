import numpy as np
import pytest
from PIL import Image

from src.classes import ClassList
from src.data.labels import LabelEncoder
from src.image_io import read_mask
from src.inference.drawing import coloured, mask_image, overlaid, palette_image

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


@pytest.mark.parametrize(("ids", "mode"), [((0, 255), "P"), ((3, 1), "P"), ((7, 300), "I;16")])
def test_a_mask_stores_the_ids_of_the_classes_and_reads_as_a_label(tmp_path, ids, mode):
    classes = ClassList(("a", "b"), PALETTE, ids)
    labels = np.array([[0, 1, 1], [1, 0, 0]])
    mask_image(labels, classes).save(tmp_path / "mask.png")
    stored = read_mask(tmp_path / "mask.png")
    assert np.array_equal(LabelEncoder(classes)(stored, "mask.png"), labels)
    with Image.open(tmp_path / "mask.png") as picture:
        assert picture.mode == mode
        if mode == "P":
            assert np.array_equal(np.asarray(picture.convert("RGB")), coloured(labels, PALETTE))


def test_ids_that_no_mask_file_holds_are_refused():
    with pytest.raises(ValueError, match="at most 65535 to be written as masks, got 70000"):
        mask_image(np.array([[0]]), ClassList(("a", "b"), PALETTE, (0, 70000)))
