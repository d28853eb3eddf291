"""What the masks and options of a loss must be."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_masks(logits: Tensor, masks: Tensor, ignore_index: int) -> None:
    """Raises where masks do not fit the logits. Their values are looked at on a CPU alone, where nobody has to wait.

    Args:
        logits: scores ``(B, K, h, w)``.
        masks: labels ``(B, H, W)``, int64, 0..K-1 or ``ignore_index``.
        ignore_index: the mask value without a label.

    Raises:
        ValueError: the masks have another shape, type or value, or ``ignore_index`` is a class.
    """
    num_classes = logits.shape[1]
    if masks.ndim != 3 or masks.dtype != torch.int64 or len(masks) != len(logits):
        raise ValueError(
            f"masks must be int64 of shape (B, H, W) with B = {len(logits)}, "
            f"got {masks.dtype} of shape {tuple(masks.shape)}; give one mask of class ids per image."
        )
    if 0 <= ignore_index < num_classes:
        raise ValueError(
            f"model.loss.ignore_index must not be one of the classes 0..{num_classes - 1}, "
            f"got {ignore_index}; give the value that unlabelled pixels have in the masks."
        )
    if masks.device.type != "cpu" or not masks.numel():
        return
    low, high = torch.stack(torch.aminmax(masks.where(masks != ignore_index, 0))).tolist()
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"masks must hold 0..{num_classes - 1} or {ignore_index} (ignored), "
            f"got {low if low < 0 else high}; check the class ids of the data, or set model.loss.ignore_index."
        )


def weights_of_classes(class_weights: Sequence[float] | None) -> Tensor | None:
    """Weights of classes in float32, shape ``(K,)``.

    Args:
        class_weights: weights of the classes; None for none.

    Raises:
        ValueError: one is negative.
    """
    if class_weights is None:
        return None
    if min(class_weights, default=0) < 0:
        raise ValueError(
            f"model.loss.class_weights must not be negative, got {list(class_weights)}; 0 leaves a class out."
        )
    return torch.tensor(class_weights, dtype=torch.float32)


def weights_for(logits: Tensor, class_weights: Tensor | None) -> Tensor | None:
    """The weights on the device of logits, in the type that they are scored in: float32, or float64 for double.

    Args:
        logits: scores ``(B, K, h, w)``.
        class_weights: shape ``(K,)``; None for none.

    Raises:
        ValueError: there is not one weight for each class.
    """
    if class_weights is None:
        return None
    if len(class_weights) != logits.shape[1]:
        raise ValueError(
            f"model.loss.class_weights must have one weight for each of {logits.shape[1]} classes, "
            f"got {len(class_weights)}; give them in the order of the classes."
        )
    return class_weights.to(logits.device, torch.promote_types(logits.dtype, torch.float32))
