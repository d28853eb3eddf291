"""Finding classes of one list in another by what they are called."""

import pytest

from src.classes import ClassList
from src.weights.class_names import matched_classes, same_names


def classes(*words: str) -> ClassList:
    """One class a word; synonyms behind ``/``."""
    names = [word.split("/") for word in words]
    plain = ClassList.from_names([name[0] for name in names])
    return ClassList(plain.names, plain.palette, synonyms=tuple(tuple(name[1:]) for name in names))


@pytest.mark.parametrize(
    ("theirs", "ours", "pairs"),
    [
        (["Wall", "wall"], ["wall"], {0: 1}),
        (["a/b"], ["a", "b"], {0: 0}),
        (["building, edifice"], ["Edifice"], {0: 0}),
        (["wall; divider"], ["wall"], {0: 0}),
        (["sky", "road"], ["road", "sky"], {0: 1, 1: 0}),
        (["Traffic-Light"], ["traffic_light"], {0: 0}),
        (["building/edifice"], ["edifice"], {0: 0}),
        (["sign"], ["signboard/sign"], {0: 0}),
        (["a/x"], ["b/x"], {0: 0}),
        (["sky"], ["pole", "sky", "fence"], {1: 0}),
        ([], ["sky"], {}),
    ],
)
def test_names_and_synonyms_meet(theirs, ours, pairs):
    match = matched_classes(classes(*theirs), classes(*ours))
    assert match.pairs == pairs
    assert match.unclear == {}


def test_a_name_wins_over_a_synonym():
    match = matched_classes(classes("blind/screen", "screen/projection screen"), classes("screen", "blind"))
    assert match.pairs == {0: 1, 1: 0}


def test_a_class_whose_namesake_is_taken_still_finds_its_synonym():
    match = matched_classes(classes("seat", "armchair/easy chair"), classes("seat", "easy chair"))
    assert match.pairs == {0: 0, 1: 1}


def test_what_could_be_several_classes_is_told_and_not_guessed():
    theirs = classes("screen door/screen", "blind/screen", "sky")
    match = matched_classes(theirs, classes("screen", "sky"))
    assert match.pairs == {1: 2}
    assert match.unclear == {"screen": ("screen door", "blind")}


def test_two_classes_that_could_be_one_are_told_and_not_guessed():
    match = matched_classes(classes("car/auto/van"), classes("auto", "van"))
    assert match.pairs == {}
    assert match.unclear == {"auto": ("car",), "van": ("car",)}


def test_a_street_scene_finds_its_classes_in_ade20k():
    ade20k = ClassList.ade20k()
    ours = classes("sky", "pedestrian", "sign", "pavement", "Tree", "bicyclist", "motorcar")
    match = matched_classes(ade20k, ours)
    assert {ours.names[i]: ade20k.names[j] for i, j in match.pairs.items()} == {
        "sky": "sky", "sign": "signboard", "pavement": "sidewalk", "Tree": "tree", "motorcar": "car"
    }  # fmt: skip


def test_ade20k_finds_all_its_own():
    ade20k = ClassList.ade20k()
    assert matched_classes(ade20k, ade20k).pairs == {i: i for i in range(150)}


def test_names_alike_but_for_case_are_not_guessed():
    match = matched_classes(classes("Wall", "wall", "sky"), classes("WALL", "sky"))
    assert match.pairs == {1: 2}
    assert match.unclear == {"WALL": ("Wall", "wall")}


def test_same_names_are_seen_through_synonyms_and_places_count():
    ours = classes("windowpane/window", "car")
    assert same_names(["Window ", "car"], ours)
    assert not same_names(["car", "window"], ours)
