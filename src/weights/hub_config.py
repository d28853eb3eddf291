"""The ``config.json`` that transformers reads beside weights."""

from collections.abc import Mapping
from typing import Any

from src.classes import ClassList
from src.layers.size import Size
from src.weights.described import EncoderDescription, described_heads
from src.weights.layouts.layout import Kind
from src.weights.published import PublishedWeights
from src.weights.rebuilt import segmenter_settings

_MODELS = {
    ("classifier", 1): "SwinForImageClassification",
    ("classifier", 2): "Swinv2ForImageClassification",
    ("segmentor", 1): "UperNetForSemanticSegmentation",
    ("encoder", 2): "Swinv2Model",
}


def hub_config(published: PublishedWeights, kind: Kind, classes: ClassList | None, image_size: int) -> dict[str, Any]:
    """The ``config.json``.

    Args:
        published: the weights.
        kind: what is written of them.
        classes: what the outputs stand for.
        image_size: height and width of the images, in pixels.

    Raises:
        ValueError: transformers has no such model.
    """
    about = published.describe()
    swin = _swin(about, image_size)
    if kind == "segmentor":
        return _upernet(published, swin, classes)
    with_norms = kind == "encoder" and "encoder.norm0.weight" in published.state
    architecture = "SwinBackbone" if with_norms and about.version == 1 else _MODELS.get((kind, about.version))
    stages = {"out_features": _stages(about)} if with_norms and about.version == 1 else {}
    outputs = published.state.get("classifier.head.weight")
    labels = _labels(classes, len(outputs)) if kind == "classifier" and outputs is not None else {}
    return {"architectures": [architecture or "SwinModel"], **swin, **stages, **labels}


def _swin(about: EncoderDescription, image_size: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model_type": "swin",
        "embed_dim": about.embed_dim,
        "depths": list(about.depths),
        "num_heads": list(about.num_heads),
        "window_size": _window(about.known_windows[0]),
        "patch_size": about.patch_size,
        "num_channels": about.in_channels,
        "mlp_ratio": about.mlp_ratio,
        "qkv_bias": about.qkv_bias,
        "use_absolute_embeddings": about.absolute_pos_embed is not None,
        "image_size": image_size,
        "hidden_size": about.embed_dim * 2 ** (len(about.depths) - 1),
    }
    if about.absolute_pos_embed is not None:
        config["image_size"] = [about.patch_size * tokens for tokens in about.absolute_pos_embed]
    if about.version == 2:
        config |= {"model_type": "swinv2", "pretrained_window_sizes": _pretrained(about)}
    return config


def _window(size: Size) -> int:
    height, width = size
    if height != width:
        raise ValueError(f"windows must be square in transformers, got {height}x{width}; write another layout.")
    return height


def _pretrained(about: EncoderDescription) -> list[int]:
    sizes = about.pretrained_windows or (None,) * len(about.depths)
    return [0 if size is None else _window(size) for size in sizes]


def _stages(about: EncoderDescription) -> list[str]:
    return [f"stage{number + 1}" for number in range(len(about.depths))]


def _upernet(published: PublishedWeights, swin: Mapping[str, Any], classes: ClassList | None) -> dict[str, Any]:
    heads = described_heads(published.state)
    assert heads is not None, "other decoders are refused before"
    about = published.describe()
    decoder = segmenter_settings(published)["init_args"]["decoder"]["init_args"]
    return {
        "architectures": [_MODELS["segmentor", 1]],
        "model_type": "upernet",
        "backbone_config": {**swin, "out_features": _stages(about)},
        "hidden_size": heads.channels,
        "pool_scales": list(decoder["pool_sizes"]),
        "use_auxiliary_head": heads.auxiliary_channels is not None,
        "auxiliary_in_channels": about.embed_dim * 2**heads.auxiliary_level,
        "auxiliary_channels": heads.auxiliary_channels or 256,
        "auxiliary_num_convs": 1 if heads.auxiliary_channels is None else heads.auxiliary_convs,
        "auxiliary_concat_input": False,
        **_labels(classes, heads.num_classes),
    }


def _labels(classes: ClassList | None, count: int) -> dict[str, Any]:
    names = [f"LABEL_{place}" for place in range(count)] if classes is None else classes.names
    return {
        "id2label": {str(place): name for place, name in enumerate(names)},
        "label2id": {name: place for place, name in enumerate(names)},
    }
