"""What a file says its outputs stand for."""

import pytest

from src.classes import ClassList
from src.weights.class_names import matched_classes
from src.weights.told_classes import told_classes

STREET = ["sky", "road", "car"]


@pytest.mark.parametrize(
    "facts",
    [
        {"meta": {"CLASSES": tuple(STREET), "PALETTE": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}},
        {"meta": {"dataset_meta": {"classes": STREET, "palette": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}}},
        {"config": {"id2label": {"2": "car", "0": " sky ", "1": "road"}}},
        {"config": {"classes": ClassList.from_names(STREET).to_dict()}},
        {"segmentation": {"classes": ClassList.from_names(STREET).to_dict()}},
    ],
    ids=["mmseg 0", "mmseg 1", "transformers", "pretrained folder", "checkpoint"],
)
def test_names_are_found(facts):
    classes = told_classes(facts, 3)
    assert list(classes.names) == STREET
    if "meta" in facts:
        assert classes.palette == ((1, 2, 3), (4, 5, 6), (7, 8, 9))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"meta": {"CLASSES": ["sky", "road"]}},  # of another length
        {"meta": {"CLASSES": 3}},
        {"meta": "text"},
        {"config": {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}},
        {"config": {"id2label": {"a": "sky", "b": "road", "c": "car"}}},
        {"config": [1]},
        {"segmentation": {"classes": {"names": STREET}}},  # damaged
    ],
    ids=str,
)
def test_what_says_nothing_is_nothing(facts):
    assert told_classes(facts, 3) is None


def test_a_name_that_stands_twice_calls_neither_class():
    classes = told_classes({"config": {"id2label": {"0": "sky", "1": "road", "2": "sky"}}}, 3)
    match = matched_classes(classes, ClassList.from_names(["road", "sky"]))
    assert match.pairs == {0: 1}
    assert list(match.unclear) == ["sky"]


def test_a_damaged_palette_leaves_the_names():
    classes = told_classes({"meta": {"CLASSES": STREET, "PALETTE": [[1, 2], 3, None]}}, 3)
    assert list(classes.names) == STREET


def test_ade20k_comes_with_its_synonyms_and_ids():
    ade20k = ClassList.ade20k()
    names = [f"{name} " if name == "bed" else name for name in ade20k.names]
    names[8] = "window"  # a synonym of windowpane
    assert told_classes({"meta": {"CLASSES": names}}, 150) == ade20k
    assert told_classes({"meta": {"CLASSES": names[::-1]}}, 150) != ade20k
