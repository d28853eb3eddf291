from dataclasses import replace

import torch

from src.measurement.inputs import draw, photograph, preprocessing
from src.measurement.options import Options

OPTIONS = Options(model="nano", size=(32, 48), num_classes=5)


def test_inputs_are_drawn_the_same_each_time():
    first, second = draw(OPTIONS), draw(OPTIONS)
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.masks, second.masks)
    assert (first.photograph == second.photograph).all()


def test_shapes_and_values_are_those_of_real_inputs():
    inputs = draw(OPTIONS)
    assert inputs.images.shape == (1, 3, 32, 48)
    assert inputs.training_images.shape == (2, 3, 32, 48)
    assert inputs.masks.shape == (2, 32, 48)
    assert set(inputs.masks.unique().tolist()) == {0, 1, 2, 3, 4, 255}
    assert inputs.photograph.shape == (*inputs.labels.shape, 3)


def test_another_size_may_be_asked_for():
    assert draw(replace(OPTIONS, size=(64, 40))).images.shape == (1, 3, 64, 40)


def test_a_photograph_grows_to_the_size_of_the_images():
    assert photograph((512, 512)) == (480, 640)
    assert preprocessing(Options()).input_size((480, 640)) == (512, 683)
    assert photograph((1, 1)) == (1, 1)
