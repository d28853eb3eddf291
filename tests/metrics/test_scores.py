import math

import pytest
import torch
from torchmetrics.classification import MulticlassConfusionMatrix

from src.metrics import Scores


def scores(predictions: list[list[int]], labels: list[list[int]], num_classes: int) -> Scores:
    confusion = MulticlassConfusionMatrix(num_classes, ignore_index=255, validate_args=False)
    for prediction, label in zip(predictions, labels, strict=True):
        confusion.update(torch.tensor([prediction]), torch.tensor([label]))
    return Scores.from_confusion(confusion.compute())


def test_counts_over_the_set_not_per_image():
    first = ([0, 0, 0, 0], [0, 0, 0, 1])
    second = ([1, 1, 1, 1], [1, 1, 1, 1])
    apart = scores([first[0], second[0]], [first[1], second[1]], 2)
    joined = scores([first[0] + second[0]], [first[1] + second[1]], 2)
    assert apart.iou.tolist() == pytest.approx([0.75, 0.8])
    assert float(apart.miou) == pytest.approx(0.775)
    assert float(joined.miou) == float(apart.miou)


def test_a_class_in_no_label_and_no_prediction_is_left_out_of_the_means():
    result = scores([[0, 1, 0, 1]], [[0, 1, 0, 0]], 3)
    assert result.iou[:2].tolist() == pytest.approx([2 / 3, 0.5])
    assert math.isnan(result.iou[2])
    assert float(result.miou) == pytest.approx(0.58333, abs=1e-5)
    assert result.absent == [2]


def test_a_class_that_is_predicted_but_never_labelled_counts_as_zero():
    result = scores([[0, 1]], [[0, 0]], 2)
    assert result.iou.tolist() == pytest.approx([0.5, 0.0])
    assert float(result.miou) == pytest.approx(0.25)
    assert math.isnan(result.class_accuracy[1])
    assert float(result.mean_accuracy) == pytest.approx(0.5)
    assert result.absent == []


@pytest.mark.parametrize("prediction_there", [0, 1, 2])
def test_ignored_pixels_change_nothing(prediction_there):
    result = scores([[0, 1, 1, 0, prediction_there]], [[0, 1, 2, 0, 255]], 3)
    assert result.iou.tolist() == pytest.approx([1.0, 0.5, 0.0])
    assert float(result.miou) == pytest.approx(0.5)
    assert result.pixels.tolist() == [2, 1, 1]


def test_equal_a_plain_count():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 5, (4, 30, 41), generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.1] = 255
    predictions = torch.randint(0, 5, labels.shape, generator=generator)
    confusion = MulticlassConfusionMatrix(5, ignore_index=255, validate_args=False)
    confusion.update(predictions, labels)
    result = Scores.from_confusion(confusion.compute())
    right_pixels = labelled_pixels = 0
    for index in range(5):
        both = either = labelled = 0
        for prediction, label in zip(predictions.flatten().tolist(), labels.flatten().tolist(), strict=True):
            if label != 255:
                both += prediction == index and label == index
                either += prediction == index or label == index
                labelled += label == index
        assert float(result.iou[index]) == pytest.approx(both / either, rel=1e-12)
        assert float(result.class_accuracy[index]) == pytest.approx(both / labelled, rel=1e-12)
        right_pixels, labelled_pixels = right_pixels + both, labelled_pixels + labelled
    assert float(result.accuracy) == pytest.approx(right_pixels / labelled_pixels, rel=1e-12)


def test_nothing_labelled_gives_nan():
    assert math.isnan(scores([[0, 1]], [[255, 255]], 2).accuracy)
