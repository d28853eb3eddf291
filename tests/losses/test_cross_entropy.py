import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.losses import CrossEntropy, DiceLoss, OHEMCrossEntropy
from tests.layers.largest_tensor import LargestTensor


def batch(dtype=torch.float64, classes=5, size=(33, 47)):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, classes, 9, 12, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    masks = torch.randint(0, classes, (2, *size), generator=generator)
    masks[0, :7] = 255
    return logits, masks


def full_size(logits, masks):
    return F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)


@pytest.mark.parametrize("class_weights", [None, [0.25, 1.0, 2.0, 0.5, 0.0]])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
def test_loss_and_gradient_are_torchs_on_full_size_logits(class_weights, label_smoothing, max_bytes):
    logits, masks = batch()
    loss = CrossEntropy(class_weights=class_weights, label_smoothing=label_smoothing, max_bytes=max_bytes)(
        logits, masks
    )
    weight = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float64)
    expected = F.cross_entropy(
        full_size(logits, masks), masks, weight=weight, ignore_index=255, label_smoothing=label_smoothing
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


def test_mean_over_all_pixels_is_the_published_recipes():
    logits, masks = batch()
    expected = F.cross_entropy(full_size(logits, masks), masks, ignore_index=255, reduction="none").mean()
    loss = CrossEntropy(mean="all")(logits, masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert CrossEntropy()(logits, masks).item() > loss.item()


def test_mean_is_over_labelled_pixels_however_many_are_ignored():
    torch.manual_seed(0)
    logits = torch.randn(1, 3, 1, 8)
    masks = torch.tensor([[[0, 1, 2, 0, 255, 255, 255, 255]]])
    expected = F.cross_entropy(logits[..., :4], masks[..., :4])
    assert CrossEntropy()(logits, masks).item() == pytest.approx(expected.item(), rel=1e-6)
    more = F.pad(logits, (0, 6), value=3.0), F.pad(masks, (0, 6), value=255)
    assert CrossEntropy()(*more).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("mean", ["labelled", "all"])
@pytest.mark.parametrize("class_weights", [None, [1.0, 2.0, 3.0]])
def test_nothing_labelled_is_no_loss_and_a_step_leaves_weights_finite(mean, class_weights):
    torch.manual_seed(0)
    model = nn.Conv2d(3, 3, 1)
    before = [parameter.clone() for parameter in model.parameters()]
    criterion = CrossEntropy(mean=mean, class_weights=class_weights)
    logits, masks = model(torch.randn(1, 3, 4, 4)), torch.full((1, 16, 16), 255)
    loss = criterion(logits, masks) + 0.4 * criterion(logits[..., ::2, ::2], masks)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert loss.item() == 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_another_ignored_value():
    logits, masks = batch()
    other = masks.where(masks != 255, -1)
    assert torch.equal(CrossEntropy(ignore_index=-1)(logits, other), CrossEntropy()(logits, masks))


@pytest.mark.parametrize("ignore_index", [-1, 255])
def test_smoothing_leaves_ignored_pixels_out(ignore_index):
    logits, masks = batch()
    labelled = masks != 255
    scores = full_size(logits, masks).permute(0, 2, 3, 1)[labelled]
    expected = F.cross_entropy(scores, masks[labelled], label_smoothing=0.3)
    loss = CrossEntropy(ignore_index=ignore_index, label_smoothing=0.3)(logits, masks.where(labelled, ignore_index))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


def test_half_precision_is_computed_in_single():
    logits, masks = batch(torch.bfloat16)
    loss = CrossEntropy()(logits, masks)
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad.dtype == torch.bfloat16
    assert loss.item() == pytest.approx(CrossEntropy()(logits.float(), masks).item(), rel=1e-6)


def test_full_size_logits_never_exist():
    logits = torch.randn(1, 50, 32, 32, requires_grad=True)
    masks = torch.zeros(1, 128, 128, dtype=torch.int64)
    with LargestTensor() as largest:
        CrossEntropy(max_bytes=200_000)(logits, masks).backward()
    assert 0 < largest.numel <= max(logits.numel(), 2 * 200_000 // 4)
    assert largest.numel < 50 * 128 * 128 / 8


@pytest.mark.parametrize("value", [5, 254, -1])
def test_labels_that_are_no_class_are_named(value):
    logits, masks = batch()
    masks[1, 3, 4] = value
    with pytest.raises(ValueError, match=rf"masks must hold 0\.\.4 or 255 \(ignored\), got {value};"):
        CrossEntropy()(logits, masks)


@pytest.mark.parametrize("options", [{}, {"mean": "all"}, {"class_weights": [1.0] * 5}])
def test_values_are_looked_at_on_a_cpu_alone(options):
    logits, masks = (part.to("meta") for part in batch())  # whose values nobody can wait for
    assert CrossEntropy(**options).to("meta")(logits, masks).shape == ()


def test_class_weights_move_with_the_loss_and_stay_out_of_its_state():
    loss = CrossEntropy(class_weights=[1.0, 2.0])
    assert dict(loss.named_buffers())["class_weights"].tolist() == [1.0, 2.0]
    assert loss.to("meta").class_weights.is_meta
    assert loss.state_dict() == {}


@pytest.mark.parametrize("weights", [[1.0] * 4, [1.0] * 6])
def test_another_number_of_class_weights_is_refused(weights):
    with pytest.raises(ValueError, match=f"one weight for each of 5 classes, got {len(weights)}"):
        CrossEntropy(class_weights=weights)(*batch())


def test_an_ignored_value_that_is_a_class_is_refused():
    with pytest.raises(ValueError, match=r"ignore_index must not be one of the classes 0\.\.299, got 255"):
        CrossEntropy()(*batch(torch.float32, classes=300))


@pytest.mark.parametrize("change", [lambda masks: masks.int(), lambda masks: masks[0], lambda masks: masks[:1]])
def test_masks_of_another_kind_are_refused(change):
    logits, masks = batch()
    with pytest.raises(ValueError, match=r"masks must be int64 of shape \(B, H, W\) with B = 2"):
        CrossEntropy()(logits, change(masks))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": "some"}, r"model\.loss\.mean must be .*got 'some'; .*\.$"),
        ({"label_smoothing": 1.5}, r"model\.loss\.label_smoothing must be between 0 and 1, got 1\.5; .*\.$"),
        ({"class_weights": [1.0, -1.0]}, r"model\.loss\.class_weights must not be negative, .*; .*\.$"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CrossEntropy(**options)


@pytest.mark.parametrize("criterion", [CrossEntropy(), OHEMCrossEntropy(), DiceLoss()])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_an_empty_batch_has_no_loss(criterion, memory_format):
    logits = torch.zeros(0, 3, 4, 5).to(memory_format=memory_format).requires_grad_()
    loss = criterion(logits, torch.zeros(0, 8, 10, dtype=torch.int64))
    loss.backward()
    assert loss == 0
    assert logits.grad.shape == logits.shape
