import itertools
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.classes import ClassList
from src.inference import Predictor, SlidingWindow
from src.models import FeatureSpec, Segmenter, swin_upernet
from src.preprocessing import Preprocessing
from tests.models.random_weights import randomise


class Pixels(nn.Module):
    """An encoder whose cells each see their own pixels alone."""

    def __init__(self, stride):
        super().__init__()
        self.stride = stride
        self.feature_specs = (FeatureSpec(3, stride),)

    def forward(self, images):
        return [F.avg_pool2d(images, self.stride, ceil_mode=True)]


class Scores(nn.Module):
    def __init__(self, features, num_classes):
        super().__init__()
        self.stride = features[0].stride
        self.score = nn.Conv2d(3, num_classes, 1)

    def forward(self, features):
        return self.score(features[0])


def local_model(stride=4, num_classes=5):
    torch.manual_seed(0)
    return Segmenter(Pixels(stride), Scores, num_classes=num_classes).double().eval()


def small_swin():
    torch.manual_seed(0)
    sizes = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4}
    return randomise(swin_upernet("tiny", 5, **sizes)).double().eval()


@torch.no_grad()
def naive(model, image, size, step):
    """Every window by itself, every cell's scores in a list; for steps that the stride divides."""
    stride = model.stride
    extents = image.shape[1:]
    starts = []
    for extent, side, each in zip(extents, size, step, strict=True):
        last = max(0, -(-(extent - side) // stride) * stride)
        starts.append(sorted({*range(0, last, each), last}))
    found = {}
    for top, left in itertools.product(*starts):
        crop = image[:, top : top + size[0], left : left + size[1]]
        scores = model(crop[None]).logits[0]
        for row, column in itertools.product(*map(range, scores.shape[1:])):
            found.setdefault((top // stride + row, left // stride + column), []).append(scores[:, row, column])
    rows, columns = (max(place[axis] for place in found) + 1 for axis in (0, 1))
    means = [torch.stack(found[row, column]).mean(0) for row in range(rows) for column in range(columns)]
    return torch.stack(means, 1).view(-1, rows, columns)


IMAGE_SIZES = [(64, 64), (1, 1), (7, 200), (131, 67), (32, 33), (97, 31)]


@pytest.mark.parametrize("size", IMAGE_SIZES)
@pytest.mark.parametrize("windows", [((32, 32), None), ((32, 48), (32, 48)), ((8, 8), (4, 4)), ((20, 12), (19, 7))])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_that_sees_only_its_cell_gives_the_whole_images_scores(size, windows, batch):
    model = local_model()
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    scores = SlidingWindow(*windows, batch_size=batch).logits(model, images)
    assert torch.allclose(scores, model(images).logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("size", "step", "rounded"),
    [
        ((32, 32), (20, 20), (20, 20)),
        ((32, 64), (32, 27), (32, 24)),
        ((33, 30), None, (20, 20)),
        ((9, 9), (3, 1), (4, 4)),
    ],
)
@pytest.mark.parametrize("image_size", [(70, 90), (45, 33), (20, 100)])
def test_swin_scores_are_the_means_over_windows(size, step, rounded, image_size):
    model = small_swin()
    images = torch.randn(2, 3, *image_size, dtype=torch.float64)
    scores = SlidingWindow(size, step, batch_size=2).logits(model, images)
    for image, score in zip(images, scores, strict=True):
        expected = naive(model, image, size, rounded)
        assert torch.allclose(score, expected, rtol=0, atol=1e-10 * expected.abs().max().item())


@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
def test_the_model_never_sees_more_windows_than_told_and_the_result_stays(batch):
    model = small_swin()
    images = torch.randn(1, 3, 200, 200, dtype=torch.float64)
    expected = SlidingWindow((64, 64), (43, 43)).logits(model, images)
    with mock.patch.object(model, "forward", wraps=model.forward) as forward:
        scores = SlidingWindow((64, 64), (43, 43), batch).logits(model, images)
    shapes = [tuple(call.args[0].shape) for call in forward.call_args_list]
    assert max(shape[0] for shape in shapes) == min(batch, 25)
    assert sum(shape[0] for shape in shapes) == 25
    assert all(shape[2] <= 64 and shape[3] <= 64 for shape in shapes)
    assert torch.allclose(scores, expected, rtol=0, atol=1e-11 * expected.abs().max().item())


def test_a_predictor_labels_through_windows():
    model = local_model()
    preprocessing = Preprocessing()
    classes = ClassList.from_names(list("abcde"))
    image = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    whole, sliding = (
        Predictor(model.float(), preprocessing, classes, windows=windows) for windows in (None, SlidingWindow((64, 64)))
    )
    with mock.patch.object(model, "forward", wraps=model.forward) as forward:
        labels = sliding(image)
    assert forward.call_count > 1
    assert labels.shape == (90, 130)
    assert (labels == whole(image)).float().mean() > 0.999  # scores may tie in rounding


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (0, 512)}, r"size of a sliding window must be a height and a width from 1 up, got \(0, 512\)"),
        ({"size": 32}, r"size of a sliding window must be a height and a width from 1 up, got 32"),
        ({"stride": (0, 1)}, r"stride of a sliding window must be a height and a width from 1 up, got \(0, 1\)"),
        ({"batch_size": 0}, r"batch_size of a sliding window must be at least 1, got 0"),
        ({"size": (64, 64), "stride": (65, 64)}, r"must not be above its size \(64, 64\), got \(65, 64\)"),
    ],
)
def test_windows_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SlidingWindow(**arguments)


def test_windows_smaller_than_the_models_stride_and_no_images_are_refused():
    model = local_model()
    with pytest.raises(ValueError, match=r"must be at least the model's stride 4, got \(3, 8\)"):
        SlidingWindow((3, 8)).logits(model, torch.randn(1, 3, 16, 16, dtype=torch.float64))
    with pytest.raises(ValueError, match="images must be at least one, got none"):
        SlidingWindow().logits(model, torch.randn(0, 3, 16, 16, dtype=torch.float64))


@pytest.mark.parametrize(("name", "value"), [("execution", "fast"), ("windows", (64, 64))])
def test_a_predictor_wants_objects(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an? [A-Za-z]*, got"):
        Predictor(local_model().float(), Preprocessing(), ClassList.from_names(list("abcde")), **{name: value})
