import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.losses import FullSizeLoss


@pytest.fixture
def batch():
    torch.manual_seed(0)
    masks = torch.randint(0, 4, (2, 33, 47))
    masks[0, :5] = 255
    return torch.randn(2, 4, 9, 12, requires_grad=True), masks


def test_another_librarys_loss_gets_logits_of_the_masks_size(batch):
    smp_losses = pytest.importorskip("segmentation_models_pytorch.losses")
    loss = smp_losses.LovaszLoss("multiclass", ignore_index=255)
    logits, masks = batch
    result = FullSizeLoss(loss)(logits, masks)
    assert torch.equal(result, loss(F.interpolate(logits, size=(33, 47), mode="bilinear", align_corners=False), masks))
    result.backward()
    assert logits.grad.abs().sum() > 0


def test_half_precision_is_scored_in_single(batch):
    logits, masks = batch
    assert FullSizeLoss(nn.CrossEntropyLoss(ignore_index=255))(logits.bfloat16(), masks).dtype == torch.float32
