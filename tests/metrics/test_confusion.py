import pytest
import torch
import torch.nn.functional as F
from torchmetrics.classification import MulticlassConfusionMatrix

from src.metrics import PixelConfusion, Scores, banded_confusion, confusion_counts, pixel_accuracy
from tests.layers.largest_tensor import LargestTensor


def maps(classes=5, size=(2, 33, 47), ignore_index=255):
    generator = torch.Generator().manual_seed(0)
    predictions, masks = (torch.randint(0, classes, size, generator=generator) for _ in range(2))
    masks[torch.rand(size, generator=generator) < 0.1] = ignore_index
    return predictions, masks


def counted_one_by_one(predictions, masks, classes, ignore_index=255):
    counts = [[0] * classes for _ in range(classes)]
    for prediction, label in zip(predictions.flatten().tolist(), masks.flatten().tolist(), strict=True):
        if label != ignore_index:
            counts[label][prediction] += 1
    return counts


@pytest.mark.parametrize("ignore_index", [255, -1, 5])
@pytest.mark.parametrize("size", [(2, 33, 47), (1, 1, 1), (1, 97, 1)])
def test_counts_are_those_of_pixel_after_pixel(ignore_index, size):
    predictions, masks = maps(size=size, ignore_index=ignore_index)
    counts = confusion_counts(predictions, masks, 5, ignore_index)
    assert counts.dtype == torch.int64
    assert counts.tolist() == counted_one_by_one(predictions, masks, 5, ignore_index)


def test_small_integer_types_are_counted_too():
    predictions, masks = maps(classes=150)
    small = confusion_counts(predictions.to(torch.uint8), masks.to(torch.uint8), 150)
    assert torch.equal(small, confusion_counts(predictions, masks, 150))


def test_nothing_labelled_and_no_pixels_are_zeros():
    predictions, masks = maps()
    assert not confusion_counts(predictions, torch.full_like(masks, 255), 5).any()
    assert not confusion_counts(predictions[:0], masks[:0], 5).any()


@pytest.mark.parametrize(("ignore_index", "value"), [(255, 5), (255, -1), (255, 254), (-1, 5), (-1, -2), (-1, 255)])
def test_a_label_that_is_no_class_is_named(ignore_index, value):
    predictions, masks = maps(ignore_index=ignore_index)
    masks[1, 2, 3] = value
    with pytest.raises(ValueError, match=rf"masks must hold 0\.\.4 or {ignore_index} \(ignored\), got {value};"):
        confusion_counts(predictions, masks, 5, ignore_index)


@pytest.mark.parametrize("value", [-1, 5])
def test_a_prediction_that_is_no_class_is_named(value):
    predictions, masks = maps()
    predictions[1, 2, 3] = value
    with pytest.raises(ValueError, match=r"predictions must hold 0\.\.4, got .*number of classes"):
        confusion_counts(predictions, masks, 5)


def test_other_shapes_and_an_ignored_class_are_refused():
    predictions, masks = maps()
    with pytest.raises(ValueError, match=r"predictions must have the shape of the masks, \(1, 33, 47\), got"):
        confusion_counts(predictions, masks[:1], 5)
    with pytest.raises(ValueError, match=r"ignore_index must not be one of the classes 0\.\.4, got 3"):
        confusion_counts(predictions, masks, 5, 3)


def test_a_set_is_counted_as_torchmetrics_counts_it():
    ours, base = PixelConfusion(5), MulticlassConfusionMatrix(5, ignore_index=255, validate_args=False)
    for images in (1, 2):
        predictions, masks = maps(size=(images, 33, 47))
        ours.update(predictions, masks)
        base.update(predictions, masks)
    assert torch.equal(ours.compute(), base.compute())
    assert ours.metric_state.keys() == base.metric_state.keys() == {"confmat"}
    assert ours._reductions == base._reductions  # what processes do with their counts
    assert torch.equal(Scores.from_confusion(ours.compute()).iou, Scores.from_confusion(base.compute()).iou)
    ours.reset()
    assert not ours.compute().any()


def test_one_update_of_a_validation_batch_makes_nothing_larger_than_its_pixels():
    confusion, pixels = PixelConfusion(150), (8, 512, 512)
    with LargestTensor() as largest:
        confusion.update(torch.zeros(pixels, dtype=torch.int64), torch.zeros(pixels, dtype=torch.int64))
    assert confusion.compute()[0, 0] == 8 * 512 * 512
    assert largest.numel == 8 * 512 * 512  # 16 MiB each, for each of few


@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_counted_as_their_full_size_argmax(max_bytes, dtype):
    _, masks = maps()
    logits = torch.randn(2, 5, 9, 12, generator=torch.Generator().manual_seed(1)).to(dtype)
    labels = F.interpolate(logits.float(), size=(33, 47), mode="bilinear", align_corners=False).argmax(1)
    expected = counted_one_by_one(labels, masks, 5)
    assert banded_confusion(logits, masks, max_bytes=max_bytes).tolist() == expected
    confusion = PixelConfusion(5)
    confusion.update_from_logits(logits, masks)
    assert confusion.compute().tolist() == expected
    right = ((labels == masks).sum() / (masks != 255).sum()).item()
    assert pixel_accuracy(logits, masks, max_bytes=max_bytes).item() == pytest.approx(right, rel=1e-6)


def test_another_ignored_value_is_left_out_of_accuracy_and_counts():
    predictions, masks = maps(ignore_index=-1)
    logits = F.one_hot(predictions, 5).permute(0, 3, 1, 2).float()
    assert banded_confusion(logits, masks, ignore_index=-1).sum() == (masks != -1).sum()
    accuracy = pixel_accuracy(logits, masks, ignore_index=-1)
    assert accuracy.item() == pytest.approx((predictions == masks)[masks != -1].float().mean().item(), rel=1e-6)
    assert pixel_accuracy(logits, torch.full_like(masks, -1), ignore_index=-1).isnan()


def test_full_size_logits_are_not_made_for_a_count():
    logits, masks = torch.randn(1, 50, 32, 32), torch.zeros(1, 128, 128, dtype=torch.int64)
    with LargestTensor() as largest:
        banded_confusion(logits, masks, max_bytes=200_000)
    assert largest.numel <= 200_000 // 4
