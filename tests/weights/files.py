"""Files of published weights, made from small models of our own."""

import functools
from pathlib import Path

import torch
from torch import Tensor, nn

from src.models import FCNHead, Segmenter, SwinTransformer, SwinTransformerV2, UPerNetDecoder
from src.weights.layouts.recognise import kind_of, layout_named
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4), "drop_path_rate": 0.0}


def encoder(version: int = 1, seed: int = 0, **settings: object) -> nn.Module:
    kind = SwinTransformer if version == 1 else SwinTransformerV2
    return randomise(kind(**SMALL | {"window_size": 4} | settings), seed)


def segmenter(num_classes: int = 5, version: int = 1, seed: int = 0, **settings: object) -> Segmenter:
    heads = {"decoder": UPerNetDecoder, "auxiliary": FCNHead}
    heads = {name: functools.partial(head, channels=8) for name, head in heads.items()}
    return randomise(Segmenter(encoder(version, **settings), **heads, num_classes=num_classes), seed)


def classifier_state(model: nn.Module, num_classes: int = 10) -> dict[str, Tensor]:
    """The encoder as a classifier has it, under our names: without output norms, with a norm and a head of its own."""
    state = {f"encoder.{name}": value for name, value in model.state_dict().items() if not name.startswith("norm")}
    width = model.feature_specs[-1].channels
    return state | {
        "classifier.norm.weight": torch.rand(width),
        "classifier.norm.bias": torch.rand(width),
        "classifier.head.weight": torch.rand(num_classes, width),
        "classifier.head.bias": torch.rand(num_classes),
    }


def theirs(state: dict[str, Tensor], layout: str) -> dict[str, Tensor]:
    """Our weights under the names of a layout."""
    version = 2 if any(name.endswith("logit_scale") for name in state) else 1
    chosen = layout_named(layout, kind_of(state), version)
    return chosen.to_theirs(state, kind_of(state))[0]


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path
