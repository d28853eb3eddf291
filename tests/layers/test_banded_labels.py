import pytest
import torch
import torch.nn.functional as F

from src.layers import banded_labels as banded_labels_file
from src.layers.banded_labels import banded_labels
from tests.layers.largest_tensor import LargestTensor

CASES = [
    ((24, 40), (96, 160), None),
    ((25, 41), (97, 163), None),
    ((24, 40), (96, 160), (150, 70)),
    ((31, 37), (29, 30), (61, 83)),
    ((1, 40), (1, 160), None),
    ((1, 1), (5, 3), (2, 7)),
    ((64, 48), (20, 15), None),
]


def regions(size, classes=9, dtype=torch.float32):
    """Logits of large regions, as a trained model gives them."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(2, classes, 3, 4, generator=generator, dtype=torch.float64) * 8
    logits = F.interpolate(coarse, size=size, mode="bilinear", align_corners=False)
    return (logits + 0.05 * torch.randn(logits.shape, generator=generator, dtype=torch.float64)).to(dtype)


def full_size(logits, input_size, size):
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    for target in (input_size, size or input_size):
        logits = F.interpolate(logits, size=target, mode="bilinear", align_corners=False)
    return logits


@pytest.fixture
def computed(monkeypatch):
    """Number of pixels whose scores are looked at."""
    counts = []
    best = banded_labels_file._best
    monkeypatch.setattr(banded_labels_file, "_best", lambda scores: counts.append(len(scores)) or best(scores))
    return counts


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
def test_labels_of_regions_are_the_argmax_at_full_size(cells, input_size, size, dtype, max_bytes):
    logits = regions(cells, dtype=dtype)
    scores = full_size(logits, input_size, size)
    labels, _ = banded_labels(logits, input_size, size, max_bytes)
    best = scores.max(1).values
    chosen = scores.gather(1, labels[:, None])[:, 0]
    # Half precision makes scores tie; a tie may be broken by rounding.
    assert (best - chosen).max() <= 1e-6 * scores.abs().max()
    assert (labels != scores.argmax(1)).float().mean() <= 1e-3


def test_within_regions_no_pixel_is_computed(computed):
    logits = regions((48, 64))
    banded_labels(logits, (192, 256))
    assert sum(computed) < 0.4 * 2 * 192 * 256
    computed.clear()
    banded_labels(torch.randn(2, 9, 48, 64), (192, 256))
    assert sum(computed) >= 2 * 192 * 256


def test_one_class_everywhere_needs_the_cells_alone(computed):
    logits = torch.zeros(1, 5, 16, 16)
    logits[:, 3] = 1
    assert (banded_labels(logits, (64, 64))[0] == 3).all()
    assert sum(computed) == 16 * 16


def test_of_equal_scores_the_first_wins():
    assert not banded_labels(torch.ones(1, 4, 5, 6), (20, 24))[0].any()
    logits = torch.randn(1, 4, 5, 6, dtype=torch.float64)
    twice = logits.repeat_interleave(2, dim=1)
    assert torch.equal(banded_labels(twice, (20, 24))[0], 2 * banded_labels(logits, (20, 24))[0])


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("probability", [False, True])
def test_logits_stay_as_they_are(images, probability):
    logits = regions((24, 40))[:images].contiguous(memory_format=torch.channels_last)
    before = logits.clone()
    labels, _ = banded_labels(logits, (96, 160), probability=probability)
    assert torch.equal(logits, before)
    assert torch.equal(labels, banded_labels(logits.contiguous(), (96, 160))[0])


@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_probability_is_the_softmax_of_the_label(max_bytes, dtype, tolerance):
    logits = regions((25, 41), dtype=dtype)
    labels, confidence = banded_labels(logits, (97, 163), None, max_bytes, probability=True)
    expected = full_size(logits, (97, 163), None).softmax(1).max(1)
    assert torch.equal(labels, expected.indices)
    assert (confidence - expected.values).abs().max() <= tolerance


@pytest.mark.parametrize("classes", [2, 150])
def test_a_photograph_of_regions_needs_its_labels_and_a_band(classes):
    logits = regions((125, 188), classes)[:1]
    with LargestTensor() as largest:
        labels, _ = banded_labels(logits, (500, 752), (1000, 1500), max_bytes=2**20)
    assert largest.numel <= max(labels.numel(), logits.numel())
    assert labels.numel() < classes * 1000 * 1500 / 1.9


def test_a_class_that_is_ruled_out_never_wins():
    logits = torch.randn(1, 4, 9, 12, generator=torch.Generator().manual_seed(0))
    expected = F.interpolate(logits[:, 1:], size=(36, 48), mode="bilinear").argmax(1) + 1
    logits[:, 0] = -torch.inf
    labels, confidence = banded_labels(logits, (36, 48), probability=True)
    assert torch.equal(labels, expected)
    assert confidence.isfinite().all()
