"""How far the outputs of two models are apart, looked at before either is timed."""

from typing import Any

import torch
from torch import Tensor

from src.measurement.options import OURS

TOLERANCES = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.02}
"""Largest relative difference of two models of one function that is no mistake, by what is computed in."""
FAST_TOLERANCE = 1e-4
"""The same, for our fast numerics."""
LEAST_SAME = {"float32": 0.98, "bfloat16": 0.8, "float16": 0.9}
"""Smallest share of equal labels, well below what was seen (0.994 for a photograph that transformers' processor had
resized, 1 elsewhere, in float32; half precision: not measured)."""


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of any number, over the largest number.

    Args:
        ours: outputs.
        theirs: outputs of the same shape.

    Raises:
        ValueError: the shapes differ.
    """
    if ours.shape != theirs.shape:
        raise ValueError(
            f"outputs must be of one shape, got {tuple(ours.shape)} and {tuple(theirs.shape)}; compare models of one "
            f"size."
        )
    ours, theirs = ours.double(), theirs.double()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=torch.finfo(torch.float64).tiny))


def same_labels(ours: Tensor, theirs: Tensor) -> float:
    """The fraction of labels that are equal.

    Args:
        ours: labels.
        theirs: labels of the same shape.
    """
    return float((ours == theirs).double().mean())


def tolerance(name: str, precision: str) -> float:
    """The largest difference from a peer that is no mistake.

    Args:
        name: whose outputs, for example ``ours, fast``.
        precision: what is computed in.
    """
    return max(TOLERANCES[precision], FAST_TOLERANCE if name == OURS["fast"] else 0.0)


def compared(row: str, results: dict[str, Tensor], ours: list[str], peers: list[str]) -> dict[str, dict[str, Any]]:
    """How far each of ours is from each peer of the same function.

    Args:
        row: what was asked for.
        results: outputs by name.
        ours: names of ours.
        peers: names of peers whose function is ours.
    """
    told: dict[str, dict[str, Any]] = {}
    for name in ours:
        for peer in peers:
            if results[name].is_floating_point():
                kind, value = "relative difference", relative_difference(results[name], results[peer])
            else:
                kind, value = "same labels", same_labels(results[name], results[peer])
            told.setdefault(name, {})[peer] = {"row": row, "kind": kind, "value": value}
    return told
