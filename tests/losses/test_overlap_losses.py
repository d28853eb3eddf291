import pytest
import torch
import torch.nn.functional as F

from src.losses import DiceLoss, TverskyLoss
from tests.layers.largest_tensor import LargestTensor


def batch(dtype=torch.float64, size=(33, 47), cells=(9, 12), absent=3):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2, 5, *cells, generator=generator, dtype=torch.float64)
    masks = torch.randint(0, 5, (2, *size), generator=generator)
    masks[masks == absent] = 0
    masks[0, : size[0] // 4] = 255
    return logits.to(dtype).requires_grad_(), masks


def one_by_one(logits, masks, alpha=0.5, beta=0.5, gamma=1.0, mean="all", log_loss=False, smooth=0.0, weights=None):
    scores = F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
    chances, labels = scores.permute(0, 2, 3, 1)[masks != 255].softmax(1), masks[masks != 255]
    losses, counted = [], []
    for k in range(logits.shape[1]):
        own, weight = labels == k, 1.0 if weights is None else weights[k]
        right, wrong, missed = chances[own, k].sum(), chances[~own, k].sum(), (1 - chances[own, k]).sum()
        index = (right + smooth) / (right + alpha * wrong + beta * missed + smooth)
        if own.any():
            losses.append(weight * (-index.log() if log_loss else 1 - index))
        if own.any() or mean == "all":
            counted.append(weight)
    return (sum(losses) / sum(counted)) ** gamma


OPTIONS = [
    {},
    {"alpha": 0.3, "beta": 0.7},
    {"gamma": 0.75},
    {"gamma": 2.0},
    {"mean": "labelled"},
    {"log_loss": True},
    {"smooth": 10.0},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 2.0, 4.0, 0.25]])
@pytest.mark.parametrize("max_bytes", [1, 20_000, None])
def test_loss_and_gradient_are_those_of_sums_over_the_batch(options, weights, max_bytes):
    logits, masks = batch()
    loss = TverskyLoss(**options, class_weights=weights, max_bytes=max_bytes)(logits, masks)
    expected = one_by_one(logits, masks, **options, weights=weights)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("options", OPTIONS[1:])
def test_each_option_changes_the_loss(options):
    assert TverskyLoss(**options)(*batch()) != TverskyLoss()(*batch())


@pytest.mark.parametrize(
    ("cells", "size"), [((1, 1), (1, 1)), ((1, 13), (1, 52)), ((40, 30), (17, 11)), ((61, 1), (61, 2))]
)
def test_hostile_sizes(cells, size):
    logits, masks = batch(cells=cells, size=size)
    loss, expected = DiceLoss()(logits, masks), one_by_one(logits, masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


def full_size(logits, masks):
    return F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)


@pytest.mark.parametrize(
    "options", [{}, {"log_loss": True}, {"smooth": 3.0}, {"class_weights": [0.5, 1.0, 2.0, 4.0, 0.25]}, {"eps": 0.5}]
)
def test_dice_has_the_numbers_of_another_library(options):
    peers = pytest.importorskip("segmentation_models_pytorch.losses")
    logits, masks = batch()
    loss = DiceLoss(**options)(logits, masks)
    expected = peers.DiceLoss("multiclass", ignore_index=255, **options)(full_size(logits, masks), masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-10)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"alpha": 0.3, "beta": 0.7}, {"gamma": 1.5}, {"log_loss": True, "beta": 2.0}])
def test_tversky_has_the_numbers_of_another_library(options):
    peers = pytest.importorskip("segmentation_models_pytorch.losses")
    logits, masks = batch()
    loss = TverskyLoss(**options)(logits, masks)
    expected = peers.TverskyLoss("multiclass", ignore_index=255, **options)(full_size(logits, masks), masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-10)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_labelled_is_exactly_no_loss_and_no_gradient(options):
    logits, masks = batch(torch.float32)
    loss = TverskyLoss(**options)(logits, torch.full_like(masks, 255))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_another_ignored_value():
    logits, masks = batch()
    assert torch.equal(DiceLoss(ignore_index=-1)(logits, masks.where(masks != 255, -1)), DiceLoss()(logits, masks))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype):
    logits, masks = batch(dtype)
    loss = DiceLoss()(logits, masks)
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad.dtype == dtype
    assert loss.item() == pytest.approx(DiceLoss()(logits.double(), masks).item(), rel=1e-5)


def test_autocast_rounds_no_probability():
    logits, masks = batch(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = DiceLoss()(logits, masks)
    assert torch.equal(inside, DiceLoss()(logits, masks))


def test_full_size_logits_never_exist():
    logits, masks = torch.randn(1, 50, 32, 32, requires_grad=True), torch.zeros(1, 128, 128, dtype=torch.int64)
    with LargestTensor() as largest:
        DiceLoss(max_bytes=200_000)(logits, masks).backward()
    assert largest.numel <= logits.numel()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, r"model\.loss\.alpha must not be negative, got -1\.0; .*\.$"),
        ({"beta": -1.0}, r"model\.loss\.beta must not be negative, got -1\.0; .*\.$"),
        ({"smooth": -1.0}, r"model\.loss\.smooth must not be negative, got -1\.0; .*\.$"),
        ({"gamma": 0.0}, r"model\.loss\.gamma must be more than 0, got 0\.0; .*\.$"),
        ({"eps": 0.0}, r"model\.loss\.eps must be more than 0, got 0\.0; .*\.$"),
        ({"mean": "some"}, r"model\.loss\.mean must be .*got 'some'; .*\.$"),
        ({"class_weights": [-1.0]}, r"model\.loss\.class_weights must not be negative, .*; .*\.$"),
    ],
)
def test_overlap_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TverskyLoss(**options)


def test_masks_and_weights_that_do_not_fit_are_refused():
    logits, masks = batch()
    with pytest.raises(ValueError, match=r"masks must be int64"):
        DiceLoss()(logits, masks.int())
    with pytest.raises(ValueError, match=r"one weight for each of 5 classes, got 1"):
        DiceLoss(class_weights=[1.0])(logits, masks)
