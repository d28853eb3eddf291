"""How a model differs from the one that weights were trained in, in the words of its config."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from src.models import Segmenter
from src.models.compiled import uncompiled
from src.weights.described import described_heads
from src.weights.own import own_arguments
from src.weights.published import PublishedWeights

_SIZES = ("embed_dim", "depths", "num_heads", "patch_size", "mlp_ratio", "qkv_bias")
_FUNCTION = {"encoder": ("padded_keys", "shift_covered"), "decoder": ("pool_sizes", "norm"), "auxiliary": ("norm",)}
_PADS_LATE = "pads after the shift of windows: its outputs are the same only where nothing is padded"
_NOTES = {
    "timm": f"timm {_PADS_LATE}",
    "smp": f"smp {_PADS_LATE}, and its output norms have an epsilon of 1e-6; here it is transformers' model",
}


def other_sizes(model: nn.Module, published: PublishedWeights) -> list[str]:
    """The options of a config that must change for the model to take the weights, with their values.

    Args:
        model: a ``Segmenter``, or an encoder alone.
        published: the weights.
    """
    try:
        about: Any = published.describe()
        heads = described_heads(published.state)
    except ValueError:
        return []
    wanted = {f"encoder.{key}": getattr(about, key) for key in _SIZES}
    if heads is not None:
        wanted |= {"decoder.channels": heads.channels}
    if heads is not None and heads.auxiliary_channels is not None:
        wanted |= {"auxiliary.channels": heads.auxiliary_channels}
    differing = []
    for key, value in wanted.items():
        part, _, name = key.partition(".")
        own = _arguments(model, part).get(name, value)
        if own is not None and _plain(own) != _plain(value):
            differing.append(f"model.model.{key} {_plain(value)} (it is {_plain(own)})")
    return differing


def other_function(model: nn.Module, published: PublishedWeights) -> Iterator[str]:
    """In what the model computes something else than the one that the weights are of, a sentence each.

    Args:
        model: a ``Segmenter``, or an encoder alone.
        published: the weights.
    """
    if published.version is not None and published.layout in _NOTES:
        yield _NOTES[published.layout]
    shift_kept = _arguments(model, "encoder").get("shift_covered")
    if published.version == 1 and published.layout == "torchvision" and shift_kept:
        yield "torchvision has no shift where a window covers the map; encoder.shift_covered false does as it does"
    for part, names in _FUNCTION.items():
        theirs, ours = own_arguments(published.facts, part), _arguments(model, part)
        for name in names:
            there, here = _plain(theirs.get(name)), _plain(ours.get(name))
            if name in theirs and name in ours and there != here:
                yield f"the weights are of a model with {part}.{name} {there}, this one has {here}"


def _arguments(model: nn.Module, part: str) -> dict[str, Any]:
    """The arguments that a part was built with, as far as it tells."""
    own = getattr(model, part, None) if isinstance(model, Segmenter) else model if part == "encoder" else None
    settings: Any = getattr(uncompiled(own), "settings", None)
    return dict(settings["init_args"]) if isinstance(settings, dict) else {}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value
