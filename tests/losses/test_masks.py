import pytest
import torch

from src.losses.masks import check_masks, weights_for, weights_of_classes


def test_masks_that_fit_pass():
    check_masks(torch.zeros(2, 5, 3, 4), torch.full((2, 9, 9), 255), 255)
    check_masks(torch.zeros(2, 5, 3, 4), torch.full((2, 9, 9), 4), -1)
    check_masks(torch.zeros(0, 5, 3, 4), torch.zeros(0, 9, 9, dtype=torch.int64), 255)


@pytest.mark.parametrize(
    ("logits", "scored"),
    [(torch.float16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_weights_come_in_the_type_that_logits_are_scored_in(logits, scored):
    weights = weights_of_classes([0.0, 1.5])
    assert weights.dtype == torch.float32
    given = weights_for(torch.zeros(1, 2, 3, 4, dtype=logits), weights)
    assert given.dtype == scored
    assert given.tolist() == [0.0, 1.5]
    assert weights_of_classes(None) is None
    assert weights_for(torch.zeros(1, 2, 3, 4), None) is None


def test_masks_that_do_not_fit_are_named():
    logits, masks = torch.zeros(2, 5, 3, 4), torch.zeros(2, 9, 9, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"masks must be int64 of shape \(B, H, W\) with B = 2, got torch\.uint8"):
        check_masks(logits, masks.byte(), 255)
    with pytest.raises(ValueError, match=r"ignore_index must not be one of the classes 0\.\.4, got 0"):
        check_masks(logits, masks, 0)
    with pytest.raises(ValueError, match=r"masks must hold 0\.\.4 or 255 \(ignored\), got 7; check the class ids"):
        check_masks(logits, masks + 7, 255)


def test_weights_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"one weight for each of 5 classes, got 2; give them in the order"):
        weights_for(torch.zeros(1, 5, 3, 4), torch.ones(2))
    with pytest.raises(ValueError, match=r"class_weights must not be negative, got \[1\.0, -2\.0\]; 0 leaves"):
        weights_of_classes([1.0, -2.0])
