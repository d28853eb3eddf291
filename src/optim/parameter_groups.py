"""Which parameters decay and which do not."""

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from src.layers.position_bias import PositionBias
from src.models.compiled import plain_name

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _NormBase)
EXEMPT_NAMES = {"relative_position_bias_table", "absolute_pos_embed", "cpb_mlp", "logit_scale"}


def parameters_without_decay(model: nn.Module, encoder: str = "encoder") -> set[str]:
    """Names of the trainable parameters that the published Swin recipe exempts from weight decay.

    These are the encoder's norms and all position biases, found by their module's type, and what is named as the
    published position parameters or logit scales. The encoder's biases, ``q_bias`` and ``v_bias`` of Swin V2 among
    them, and the decoder's norms do decay. The published configs match the word ``norm`` in names instead, which gives
    the same groups for Swin and UPerNet. Names are those of the model before ``torch.compile``, where that was called.

    Args:
        model: the model whose parameters are to be grouped.
        encoder: name of the encoder in the model.

    Source: configs of Swin-Transformer-Semantic-Segmentation, ``paramwise_cfg``; for Swin V2, ``no_weight_decay`` and
    ``no_weight_decay_keywords`` of its published code (whose recipe for classification exempts all biases too).
    """
    trainable = {name for name, _ in _trainable(model)}
    return trainable & {
        *_norm_parameters(model, encoder),
        *_position_parameters(model),
        *(name for name in trainable if not EXEMPT_NAMES.isdisjoint(name.split("."))),
    }


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield plain_name(name), parameter


def _norm_parameters(model: nn.Module, encoder: str) -> Iterator[str]:
    for module_name, module in model.named_modules():
        name = plain_name(module_name)
        if isinstance(module, NORMS) and name.partition(".")[0] == encoder:
            yield from (f"{name}.{parameter}" for parameter, _ in module.named_parameters(recurse=False))


def _position_parameters(model: nn.Module) -> Iterator[str]:
    for module_name, module in model.named_modules():
        if isinstance(module, PositionBias):
            yield from (plain_name(f"{module_name}.{parameter}") for parameter, _ in module.named_parameters())


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimizer: with and without decay; each trainable parameter stands in exactly one.

    Args:
        model: the model, its encoder under the name ``encoder``.
        weight_decay: decay of the first group.
    """
    exempt = parameters_without_decay(model)
    trainable = list(_trainable(model))
    return [
        {"name": "decay", "params": [p for name, p in trainable if name not in exempt], "weight_decay": weight_decay},
        {"name": "no_decay", "params": [p for name, p in trainable if name in exempt], "weight_decay": 0.0},
    ]
