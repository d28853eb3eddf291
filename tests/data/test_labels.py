import numpy as np
import pytest

from src.classes import ClassList
from src.data.labels import LabelEncoder


def classes(*ids: int) -> ClassList:
    return ClassList(tuple(f"class {class_id}" for class_id in ids), ((0, 0, 0),) * len(ids), ids)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_reducing_the_zero_label_is_exact(dtype: type):
    encoder = LabelEncoder(classes(*range(150)), reduce_zero_label=True)
    encoded = encoder(np.array([[0, 1, 150, 255]], dtype), "mask.png")
    assert encoded.tolist() == [[255, 0, 149, 255]]
    assert encoder.classes.ids == tuple(range(1, 151))


def test_reducing_the_zero_label_also_moves_other_ignored_ids():
    encoder = LabelEncoder(classes(0, 1, 2), ignored_ids=[2, 255], reduce_zero_label=True)
    assert encoder.ignored_ids == (0, 3, 255)
    assert encoder(np.array([[0, 1, 2, 3, 255]]), "mask.png").tolist() == [[255, 0, 1, 255, 255]]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_stored_values_become_indices(dtype: type):
    encoded = LabelEncoder(classes(0, 255))(np.array([[0, 255], [255, 0]], dtype), "mask.png")
    assert encoded.tolist() == [[0, 1], [1, 0]]


def test_255_is_ignored_unless_it_is_a_class():
    assert LabelEncoder(classes(0, 1)).ignored_ids == (255,)
    assert LabelEncoder(classes(0, 255)).ignored_ids == ()


def test_large_ids_survive():
    encoder = LabelEncoder(classes(0, 300, 70000), ignored_ids=[255])
    assert encoder(np.array([[70000, 255, 300, 0]], np.int32), "mask.png").tolist() == [[2, 255, 1, 0]]


def test_a_class_with_an_ignored_id_leaves_the_list():
    encoder = LabelEncoder(classes(0, 11, 1), ignored_ids=[11])
    assert encoder.classes.names == ("class 0", "class 1")
    assert encoder(np.array([[0, 11, 1]]), "mask.png").tolist() == [[0, 255, 1]]


@pytest.mark.parametrize(("dtype", "value"), [(np.uint8, 3), (np.int32, -1), (np.int64, 100000), (np.uint16, 254)])
def test_other_values_are_named_with_file_and_options(dtype: type, value: int):
    stored = np.array([[0, 1, value, value]], dtype)
    with pytest.raises(ValueError, match=rf"(?s)data\.ignored_ids \(255\), got {value} \(2 pixels\) in a/mask\.png"):
        LabelEncoder(classes(0, 1, 2))(stored, "a/mask.png")


def test_classes_must_leave_room_for_the_ignore_index():
    assert len(LabelEncoder(classes(*range(255))).classes) == 255
    with pytest.raises(ValueError, match=r"data.classes must leave 2 to 255 classes.*got 460"):
        LabelEncoder(classes(*range(460)))
    with pytest.raises(ValueError, match="got 0"):
        LabelEncoder(classes(3), ignored_ids=[3])


@pytest.mark.parametrize("ignored", [[1], [0, 1]])
def test_a_single_class_is_refused(ignored):
    with pytest.raises(ValueError, match=r"must leave 2 to 255 classes.*add `0 background`"):
        LabelEncoder(ClassList.from_names(["cell", "rest"]), ignored_ids=ignored)


@pytest.mark.parametrize("value", [-1, 2**24])
def test_ignored_ids_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match=rf"data\.ignored_ids must be in 0\.\.\d+, got {value}"):
        LabelEncoder(classes(0, 1), ignored_ids=[value])
