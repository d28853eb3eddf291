"""What every loss promises."""

import pytest
import torch
from segmentation_models_pytorch import losses as smp_losses
from torch import nn

from src.losses import CrossEntropy, DiceLoss, FullSizeLoss, OHEMCrossEntropy, TverskyLoss, WeightedSum
from src.models.settings import build, build_recorded, plain

LOSSES = {
    "cross-entropy": CrossEntropy,
    "mean over all pixels": lambda: CrossEntropy(mean="all"),
    "weighted and smoothed": lambda: CrossEntropy(class_weights=[0.5, 1.0, 2.0, 0.0], label_smoothing=0.1),
    "hard pixels": lambda: OHEMCrossEntropy(threshold=0.7, min_kept=100, class_weights=[0.5, 1.0, 2.0, 0.0]),
    "dice": DiceLoss,
    "dice of the labelled": lambda: DiceLoss(mean="labelled", log_loss=True, class_weights=[0.5, 1.0, 2.0, 0.0]),
    "tversky": lambda: TverskyLoss(alpha=0.3, beta=0.7, gamma=0.75),
    "sum": lambda: WeightedSum([CrossEntropy(), DiceLoss()], weights=[1.0, 3.0]),
    "another library's": lambda: FullSizeLoss(build_recorded(smp_losses.DiceLoss, mode="multiclass", ignore_index=255)),
}


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]()


def batch(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    masks = torch.randint(0, 4, (2, 33, 47), generator=generator)
    masks[0, :5] = 255
    return torch.randn(2, 4, 9, 12, generator=generator).to(dtype).requires_grad_(), masks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_scalar_in_single_precision_gives_every_logit_a_finite_gradient(loss, dtype):
    logits, masks = batch(dtype)
    result = loss(logits, masks)
    result.backward()
    assert (result.shape, result.dtype) == ((), torch.float32)
    assert result.item() > 0
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().sum() > 0


def test_nothing_labelled_is_finite_and_moves_nothing(loss):
    logits, masks = batch()
    result = loss(logits, torch.full_like(masks, 255))
    result.backward()
    assert result.isfinite()
    assert not logits.grad.any()


def test_the_right_scores_lose_less(loss):
    _, masks = batch()
    right = torch.nn.functional.one_hot(masks.where(masks != 255, 0), 4).permute(0, 3, 1, 2).float()
    assert loss(3 * right, masks) < loss(0 * right, masks)


def test_settings_build_the_same_loss_again(loss):
    settings = plain(loss)
    again = build(settings)
    assert plain(again) == settings
    assert torch.equal(again(*batch()), loss(*batch()))


def test_the_state_is_not_in_the_checkpoint(loss):
    assert loss.state_dict() == {}


def test_a_loss_of_another_library_without_settings_is_named_with_the_remedy():
    with pytest.raises(ValueError, match=r"model\.loss\.loss cannot be written .*got L1Loss.*settings\.build_recorded"):
        plain(FullSizeLoss(nn.L1Loss()), "model.loss")
