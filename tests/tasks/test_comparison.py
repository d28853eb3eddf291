"""Whether a model fits what it is used with."""

import pytest

from src.classes import ClassList
from src.preprocessing import Preprocessing
from src.tasks.comparison import check_fits, check_same, differences

CLASSES = ClassList.from_names(["a", "b"])
GREY = Preprocessing(mean=(1.0,), std=(1.0,))


def test_a_model_needs_as_many_outputs_as_classes(tiny_segmenter):
    check_fits(tiny_segmenter(2), CLASSES, Preprocessing())
    with pytest.raises(ValueError, match="must name each of the model's 3 outputs, got 2 names"):
        check_fits(tiny_segmenter(3), CLASSES, Preprocessing())


def test_a_model_needs_as_many_inputs_as_channels(tiny_segmenter):
    check_fits(tiny_segmenter(2, in_channels=1), CLASSES, GREY)
    with pytest.raises(ValueError, match=r"data\.preprocessing\.mean and std .* the model's 4 input channels, got 3"):
        check_fits(tiny_segmenter(2, in_channels=4), CLASSES, Preprocessing())


def test_an_encoder_that_does_not_tell_its_channels_is_taken_as_it_is(tiny_segmenter):
    model = tiny_segmenter(2)
    del model.encoder.in_channels
    check_fits(model, CLASSES, GREY)


def test_lists_of_other_length_or_order_are_not_the_same():
    check_same(["a", "b"], ("a", "b"), "must", "do")
    with pytest.raises(ValueError, match=r"must: the model has 2, the data have 1\. do"):
        check_same(["a", "b"], ["a"], "must", "do")
    with pytest.raises(ValueError, match="class 0 is 'a' there and 'b' here"):
        check_same(["a", "b"], ["b", "a"], "must", "do")


def test_differences_are_named_by_key():
    first = {"class_path": "x", "init_args": {"encoder": {"init_args": {"depth": 1, "same": [1, 2]}}}}
    second = {"class_path": "x", "init_args": {"encoder": {"init_args": {"depth": 2, "same": [1, 2], "more": 3}}}}
    assert sorted(differences(first, second)) == ["model.encoder.depth", "model.encoder.more"]
    assert list(differences(first, first)) == []
