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


def mapped(stored: list[int], class_ids: tuple[int, ...], dtype: type = np.uint8, **arguments) -> list[int]:
    """Ids of the classes that stored values become."""
    encoder = LabelEncoder(classes(*class_ids), **arguments)
    indices = encoder(np.array([stored], dtype), "mask.png")[0]
    return [255 if index == 255 else encoder.classes.ids[index] for index in indices]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
@pytest.mark.parametrize(
    ("mapping", "stored", "expected"),
    [
        ({6: 9, 9: 7}, [6, 9, 0], [9, 7, 0]),
        ({1: 2, 2: 1}, [1, 2], [2, 1]),
        ({1: 2, 2: 7, 7: 9, 9: 0, 0: 1}, [0, 1, 2, 7, 9], [1, 2, 7, 9, 0]),
        ({3: 1, 4: 1, 5: "class 1"}, [3, 4, 5, 1], [1, 1, 1, 1]),
        ({255: 1}, [255, 1, 0], [1, 1, 0]),
        ({255: "class 1", 8: None, 1: None}, [255, 8, 1], [1, 255, 255]),
        ({}, [0, 255], [0, 255]),
    ],
)
def test_mapping_looks_each_value_up_once(mapping, stored, expected, dtype):
    assert mapped(stored, (0, 1, 2, 7, 9), dtype, mapping=mapping) == expected


def test_mapping_takes_values_of_16_bits_and_more():
    assert mapped([60000, 70000, 0], (0, 1), np.int32, mapping={60000: 1, 70000: 0}) == [1, 0, 0]


def test_a_name_is_taken_before_an_id():
    encoder = LabelEncoder(ClassList.from_names(["7", "8"]), mapping={5: "8", 6: 0})
    assert encoder(np.array([[5, 6]]), "mask.png").tolist() == [[1, 0]]


def test_255_is_ignored_no_more_where_it_is_mapped():
    assert LabelEncoder(classes(0, 1), mapping={255: 1}).ignored_ids == ()
    assert LabelEncoder(classes(0, 1), mapping={255: None}).ignored_ids == (255,)
    assert LabelEncoder(classes(0, 1), mapping={7: 1}).ignored_ids == (255,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"mapping": {5: 9}},
            r"data\.mapping must give the id or the name of a class, or null, got 5: 9; ids are 0, 1",
        ),
        ({"mapping": {5: "clas 1"}}, r"got 5: clas 1; .* the nearest is `class 1`"),
        ({"mapping": {5: 1}, "ignored_ids": [5]}, r"data\.mapping must leave out data\.ignored_ids, got \[5\] in both"),
        ({"mapping": {0: 1}, "ignored_ids": [0]}, r"got \[0\] in both"),
        ({"mapping": {-1: 1}}, r"data\.mapping must be in 0\.\.\d+, got -1"),
        ({"mapping": {2**24: 1}}, r"data\.mapping must be in 0"),
        (
            {"mapping": {5: 1}, "reduce_zero_label": True},
            r"data\.mapping and data\.reduce_zero_label must not be given",
        ),
    ],
)
def test_mappings_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelEncoder(classes(0, 1), **arguments)


def test_mapped_values_are_among_those_that_an_error_names():
    encoder = LabelEncoder(classes(0, 1), mapping={9: 1, 8: None})
    with pytest.raises(ValueError, match=r"data\.classes \(0, 1\), of data\.mapping \(9\) or of .* \(8, 255\), got 7"):
        encoder(np.array([[7]]), "mask.png")


def test_a_class_that_is_ignored_too_is_remembered():
    assert LabelEncoder(classes(0, 1, 255), ignored_ids=[255]).dropped == {255: "class 255"}
    assert LabelEncoder(classes(0, 1, 255)).dropped == {}


def test_too_many_classes_are_refused_with_255_ignored_too():
    with pytest.raises(ValueError, match=r"must leave 2 to 255 classes.*got 459"):
        LabelEncoder(classes(*range(460)), ignored_ids=[255])


def test_masks_that_are_not_whole_numbers_are_refused():
    with pytest.raises(ValueError, match=r"mask must hold whole numbers, got float32 in a/mask\.npy"):
        LabelEncoder(classes(0, 1))(np.zeros((2, 2), np.float32), "a/mask.npy")
    assert LabelEncoder(classes(0, 1))(np.eye(2, dtype=bool), "mask.npy").tolist() == [[1, 0], [0, 1]]


def test_a_mapping_finds_a_name_in_any_normal_form():
    known = ClassList.from_names(["ground", "caf\u00e9"])
    assert LabelEncoder(known, mapping={7: "cafe\u0301"}).indices == {0: 0, 1: 1, 7: 1}


def test_a_mapping_is_not_advised_where_it_is_refused():
    with pytest.raises(ValueError, match=r"add the values to data\.classes, data\.mapping or data\.ignored_ids"):
        LabelEncoder(classes(0, 1))(np.array([[9]]), "mask.png")
    with pytest.raises(ValueError, match=r"add the values to data\.classes or data\.ignored_ids"):
        LabelEncoder(classes(0, 1), reduce_zero_label=True)(np.array([[9]]), "mask.png")


@pytest.mark.parametrize(
    "encoder",
    [
        LabelEncoder(classes(*range(150)), ignored_ids=[150, 255]),
        LabelEncoder(classes(0, 7, 200)),
        LabelEncoder(classes(1, 2), mapping={0: None, 9: 2}),
        LabelEncoder(classes(*range(1, 256)), ignored_ids=[0]),
        LabelEncoder(classes(300, 4)),
        LabelEncoder(classes(0, 1, 2)).translated([1, 255, 0], "data.other"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (1, 40), (3, 4, 2), (9,)])
def test_masks_of_bytes_mean_what_the_same_numbers_of_another_type_mean(encoder: LabelEncoder, shape: tuple[int, ...]):
    known = [value for value in (*encoder.indices, *encoder.ignored_ids) if value < 256]
    stored = np.random.default_rng(0).choice(np.array(known, np.uint8), shape)
    encoded = encoder(stored, "mask.png")
    assert encoded.dtype == np.uint8
    assert encoded.tolist() == encoder(stored.astype(np.int32), "mask.png").tolist()
    view = stored[::-1]
    assert encoder(view, "mask.png").tolist() == encoded[::-1].tolist()
    for value in {*range(256)} - {*known}:
        stored.flat[-1] = value
        with pytest.raises(ValueError, match=rf"got {value} \(1 pixels\) in mask\.png"):
            encoder(stored, "mask.png")
