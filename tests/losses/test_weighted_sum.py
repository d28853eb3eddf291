import pytest
import torch
from jsonargparse import ArgumentParser
from torch import nn

from src.losses import CrossEntropy, DiceLoss, WeightedSum
from src.models.settings import build, plain


def batch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 9, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    return logits, torch.randint(0, 5, (2, 33, 47), generator=generator)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0], [0.5, 0.0]])
def test_loss_and_gradient_are_the_weighted_sum(weights):
    logits, masks = batch()
    first, second = weights or (1, 1)
    expected = first * CrossEntropy()(logits, masks) + second * DiceLoss()(logits, masks)
    loss = WeightedSum([CrossEntropy(), DiceLoss()], weights)(logits, masks)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (loss, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


def test_settings_hold_every_loss_with_its_options():
    loss = WeightedSum([CrossEntropy(label_smoothing=0.1), WeightedSum([DiceLoss(smooth=1.0)], [2.0])], [1.0, 0.5])
    again = build(plain(loss))
    assert plain(again) == plain(loss)
    assert torch.equal(again(*batch()), loss(*batch()))
    assert again.losses[0].label_smoothing == 0.1


def test_no_loss_and_other_numbers_of_weights_are_refused():
    with pytest.raises(ValueError, match=r"model\.loss\.losses must hold at least one loss, got none; .*\.$"):
        WeightedSum([])
    with pytest.raises(
        ValueError, match=r"model\.loss\.weights must have one weight for each of 2 losses, got 1; .*\.$"
    ):
        WeightedSum([CrossEntropy(), DiceLoss()], [1.0])


def test_a_config_names_the_losses_by_class_path():
    parser = ArgumentParser()
    parser.add_argument("--loss", type=nn.Module)
    arguments = {
        "losses": [
            {"class_path": "src.losses.CrossEntropy", "init_args": {"mean": "all"}},
            {"class_path": "src.losses.DiceLoss"},
        ],
        "weights": [1.0, 3.0],
    }
    config = parser.parse_object({"loss": {"class_path": "src.losses.WeightedSum", "init_args": arguments}})
    loss = parser.instantiate(config).loss
    assert plain(loss) == plain(WeightedSum([CrossEntropy(mean="all"), DiceLoss()], [1.0, 3.0]))
