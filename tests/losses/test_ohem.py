import pytest
import torch
import torch.nn.functional as F

from src.losses import CrossEntropy, OHEMCrossEntropy
from tests.layers.largest_tensor import LargestTensor


def batch(dtype=torch.float64, size=(33, 47), cells=(9, 12)):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2, 5, *cells, generator=generator, dtype=torch.float64)
    masks = torch.randint(0, 5, (2, *size), generator=generator)
    masks[0, : size[0] // 4] = 255
    return logits.to(dtype).requires_grad_(), masks


def one_by_one(logits, masks, threshold, min_kept, weights=None):
    """The kept pixels found by sorting, and the mean of their losses."""
    scores = F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
    scores, labels = scores.permute(0, 2, 3, 1)[masks != 255], masks[masks != 255]
    losses = F.cross_entropy(scores, labels, reduction="none")
    chances = (-losses.detach()).exp().tolist()
    order = sorted(range(len(chances)), key=chances.__getitem__)
    number = min(min_kept * len(masks), len(order))
    last = chances[order[number - 1]] * (1 + 1e-9) if number else 0  # pixels at the border of the logits are equal
    kept = [i for i, chance in enumerate(chances) if chance < threshold or chance <= last]
    return F.cross_entropy(scores[kept], labels[kept], weight=weights)


@pytest.mark.parametrize(("threshold", "min_kept"), [(0.7, 1), (0.05, 300), (0.0, 100), (1.0, 0), (0.3, 10**6)])
@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
@pytest.mark.parametrize(
    ("cells", "size"), [((9, 12), (33, 47)), ((1, 1), (1, 1)), ((17, 1), (61, 2)), ((8, 8), (8, 8))]
)
def test_loss_and_gradient_are_those_of_the_hard_pixels_alone(threshold, min_kept, max_bytes, cells, size):
    logits, masks = batch(cells=cells, size=size)
    loss = OHEMCrossEntropy(threshold, min_kept, max_bytes=max_bytes)(logits, masks)
    expected = one_by_one(logits, masks, threshold, min_kept)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


def test_keeping_all_is_cross_entropy():
    logits, masks = batch()
    assert OHEMCrossEntropy(min_kept=10**6)(logits, masks).item() == pytest.approx(CrossEntropy()(logits, masks).item())


def test_hard_pixels_lose_more():
    logits, masks = batch()
    assert OHEMCrossEntropy(0.2, 0)(logits, masks) > OHEMCrossEntropy(0.7, 0)(logits, masks)
    assert OHEMCrossEntropy(0.0, 10)(logits, masks) > OHEMCrossEntropy(0.0, 500)(logits, masks)


def test_pixels_as_hard_as_the_last_are_kept_too():
    logits, masks = torch.zeros(1, 4, 2, 3, dtype=torch.float64, requires_grad=True), torch.zeros(1, 2, 3).long()
    OHEMCrossEntropy(threshold=0.1, min_kept=2)(logits, masks).backward()
    assert (logits.grad[:, 0] < 0).all()
    assert logits.grad[0, 0].unique().numel() == 1


def test_fewer_labelled_pixels_than_must_be_kept_all_count():
    logits, masks = batch()
    masks[:] = 255
    masks[1, 3, 4:8] = 2
    expected = CrossEntropy()(logits, masks)
    assert OHEMCrossEntropy(0.0, 1000)(logits, masks).item() == pytest.approx(expected.item(), rel=1e-12)


def test_nothing_hard_is_no_loss_and_no_gradient():
    logits, masks = batch()
    loss = OHEMCrossEntropy(threshold=0.0, min_kept=0)(logits, masks)
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_class_weights_count_after_the_choice():
    logits, masks = batch()
    weights = [0.5, 1.0, 2.0, 0.0, 1.0]
    expected = one_by_one(logits, masks, 0.4, 50, torch.tensor(weights, dtype=torch.float64))
    loss = OHEMCrossEntropy(0.4, 50, class_weights=weights)(logits, masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


def test_another_ignored_value():
    logits, masks = batch()
    other = OHEMCrossEntropy(0.4, 50, ignore_index=-1)(logits, masks.where(masks != 255, -1))
    assert torch.equal(other, OHEMCrossEntropy(0.4, 50)(logits, masks))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype):
    logits, masks = batch(dtype)
    loss = OHEMCrossEntropy(0.4, 50)(logits, masks)
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad.dtype == dtype
    assert loss.item() == pytest.approx(OHEMCrossEntropy(0.4, 50)(logits.float(), masks).item(), rel=1e-6)


def test_full_size_logits_never_exist():
    logits, masks = torch.randn(1, 50, 32, 32, requires_grad=True), torch.zeros(1, 128, 128, dtype=torch.int64)
    with LargestTensor() as largest:
        OHEMCrossEntropy(min_kept=100, max_bytes=200_000)(logits, masks).backward()
    assert largest.numel <= logits.numel()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, r"model\.loss\.threshold must be between 0 and 1, got 1\.5; .*\.$"),
        ({"min_kept": -1}, r"model\.loss\.min_kept must not be negative, got -1; .*\.$"),
        ({"class_weights": [-1.0]}, r"model\.loss\.class_weights must not be negative, .*; .*\.$"),
    ],
)
def test_ohem_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        OHEMCrossEntropy(**options)


def test_masks_and_weights_that_do_not_fit_are_refused():
    logits, masks = batch()
    with pytest.raises(ValueError, match=r"masks must be int64"):
        OHEMCrossEntropy()(logits, masks.int())
    with pytest.raises(ValueError, match=r"one weight for each of 5 classes, got 1"):
        OHEMCrossEntropy(class_weights=[1.0])(logits, masks)


@pytest.mark.parametrize("min_kept", [0, 5])
def test_scores_that_are_not_numbers_are_no_small_loss(min_kept):
    logits, masks = batch()
    with torch.no_grad():
        logits[0, 1, 2, 3] = float("nan")
    assert OHEMCrossEntropy(min_kept=min_kept)(logits, masks).isnan()
