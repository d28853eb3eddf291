import pytest
import torch
import torch.nn.functional as F

from src.inference import label_map, label_map_with_confidence, probabilities, resize_logits
from tests.layers.largest_tensor import LargestTensor

CASES = [
    ((25, 36), (97, 143), None),
    ((125, 84), (500, 333), None),
    ((16, 16), (64, 64), (64, 64)),
    ((1, 1), (1, 1), (7, 5)),
    ((9, 12), (33, 47), (90, 131)),
    ((40, 50), (157, 199), (33, 47)),
    ((97, 131), (33, 47), (97, 131)),
]


def logits_of(size, dtype=torch.float32):
    return (torch.randn(2, 7, *size, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


def resized_twice(logits, input_size, size):
    logits = F.interpolate(logits.float(), size=input_size, mode="bilinear", align_corners=False)
    return F.interpolate(logits, size=size or input_size, mode="bilinear", align_corners=False)


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("max_bytes", [1, 100_000, None])
def test_labels_are_those_of_full_size_logits(cells, input_size, size, dtype, max_bytes):
    logits = logits_of(cells, dtype)
    labels = label_map(logits, input_size, size, max_bytes=max_bytes)
    assert labels.dtype == torch.int64
    assert torch.equal(labels, resized_twice(logits, input_size, size).argmax(1))
    assert torch.equal(labels, resize_logits(logits, input_size, size).argmax(1))


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
def test_resized_logits_are_torchs(cells, input_size, size):
    result, expected = (
        resize_logits(logits_of(cells), input_size, size),
        resized_twice(logits_of(cells), input_size, size),
    )
    assert result.is_contiguous()
    assert (result - expected).abs().max() <= 1e-6 * expected.abs().max()


def test_resized_logits_pass_gradients():
    logits = logits_of((9, 12)).requires_grad_()
    for size in (None, (50, 60)):
        (gradient,) = torch.autograd.grad(resize_logits(logits, (33, 47), size).square().sum(), logits)
        assert (gradient != 0).all()


def test_the_way_over_the_inputs_size_matters():
    logits = logits_of((9, 12))
    assert not torch.allclose(resize_logits(logits, (20, 20), (90, 131)), resize_logits(logits, (90, 131)))


def test_argmax_comes_after_resizing():
    logits = torch.tensor([[[[4.0, 0.0]], [[0.0, 4.0]], [[3.0, 3.0]]]])
    assert label_map(logits, (1, 8))[0, 0].tolist() == [0, 0, 0, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("size", [None, (300, 500)])
def test_full_size_logits_never_exist(size):
    logits = torch.randn(1, 150, 50, 75)
    with LargestTensor() as largest:
        label_map(logits, (200, 300), size, max_bytes=2**20)
    assert 0 < largest.numel <= 2**20 // 4


def test_a_large_photograph_needs_no_more_memory_than_its_labels_and_a_band():
    logits = torch.randn(1, 150, 500, 1)
    with LargestTensor() as largest:
        labels = label_map(logits, (2000, 3000))
    assert labels.shape == (1, 2000, 3000)
    assert largest.numel == labels.numel()


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("max_bytes", [1, None])
def test_probabilities_are_the_softmax_at_full_size(cells, input_size, size, dtype, max_bytes):
    logits = logits_of(cells, dtype)
    result = probabilities(logits, input_size, size, max_bytes=max_bytes)
    expected = resize_logits(logits, input_size, size).softmax(1)
    assert result.dtype == expected.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert (result - expected).abs().max() <= (1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_probabilities_come_in_the_type_asked_for(dtype):
    result = probabilities(logits_of((9, 12)), (33, 47), dtype=dtype)
    assert result.dtype == dtype
    assert torch.equal(result, probabilities(logits_of((9, 12)), (33, 47)).to(dtype))


def test_probabilities_of_a_whole_number_type_are_refused():
    with pytest.raises(ValueError, match=r"dtype must be a floating type, got torch\.uint8; torch\.float16"):
        probabilities(logits_of((9, 12)), (33, 47), dtype=torch.uint8)


def test_beside_the_probabilities_there_is_a_band_alone():
    logits = torch.randn(1, 150, 50, 75)
    with LargestTensor() as largest:
        result = probabilities(logits, (100, 150), dtype=torch.float16, max_bytes=2**20)
    assert largest.numel == result.numel()
    assert not result.requires_grad


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("max_bytes", [1, None])
def test_confidence_is_the_probability_of_the_label(cells, input_size, size, dtype, max_bytes):
    logits = logits_of(cells, dtype)
    labels, confidence = label_map_with_confidence(logits, input_size, size, max_bytes)
    assert torch.equal(labels, label_map(logits, input_size, size))
    expected = probabilities(logits, input_size, size).gather(1, labels[:, None])[:, 0]
    assert confidence.dtype == torch.float32
    assert (confidence - expected).abs().max() <= 1e-6


def test_labels_and_confidence_need_no_full_size_scores():
    logits = torch.randn(1, 150, 50, 75)
    with LargestTensor() as largest:
        label_map_with_confidence(logits, (200, 300), max_bytes=2**20)
    assert largest.numel <= 2**20 // 4


def test_labels_of_a_photograph_of_regions_stay_small_too():
    logits = torch.nn.functional.interpolate(torch.randn(1, 150, 3, 4), size=(500, 750), mode="nearest")
    with LargestTensor() as largest:
        labels = label_map(logits, (2000, 3000))
    assert labels.shape == (1, 2000, 3000)
    assert largest.numel <= max(labels.numel(), 2 * 2**20)  # of 900 million scores
