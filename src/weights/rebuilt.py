"""Which segmenter of ours published weights are of, and what belongs to it."""

from importlib.metadata import version
from typing import Any

import torch

from src.classes import ClassList
from src.models import Segmenter
from src.models.rebuilding import built, no_larger_than, take_weights
from src.models.section import SECTION, checkpoint_section
from src.models.settings import Settings
from src.preprocessing import Preprocessing
from src.weights.described import described_heads
from src.weights.layouts.layout import State
from src.weights.own import own_section
from src.weights.processor import told_preprocessing
from src.weights.published import PublishedWeights

PUBLISHED_POOLS = (1, 2, 3, 6)
SEGMENTOR_SIZE = 512
"""Height and width, in pixels, of the images of most published segmentors in training."""

_TASK = "src.tasks.semantic_segmentation.SemanticSegmentation"


def segmenter_settings(published: PublishedWeights) -> Settings:
    """Class paths and arguments of the segmenter and its parts, in plain types.

    Args:
        published: the weights of a segmentor.

    Raises:
        ValueError: they are not of Swin with UPerNet, or do not tell their windows or pools.
    """
    if recorded := own_section(published.facts).get("model"):
        return dict(recorded)
    heads = described_heads(published.state)
    if heads is None or published.version is None:
        raise ValueError(
            f"{published.source} must hold Swin with UPerNet to be built, got other parts; load it into a model of "
            f"your own with --model.weights."
        )
    if heads.num_pools != len(PUBLISHED_POOLS):
        raise ValueError(
            f"{published.source} must have the published pools {PUBLISHED_POOLS}, got {heads.num_pools} others, whose "
            f"sizes nothing tells; load it into a model of your own with --model.weights."
        )
    norm = "batch" if "decoder.bottleneck.bn.running_mean" in published.state else "group"
    decoder = {"channels": heads.channels, "pool_sizes": list(PUBLISHED_POOLS), "norm": norm}
    auxiliary = {
        "level": heads.auxiliary_level,
        "channels": heads.auxiliary_channels,
        "num_convs": heads.auxiliary_convs,
        "norm": norm,
    }
    parts = {
        "encoder": published.describe().settings,
        "decoder": {"class_path": "src.models.upernet.UPerNetDecoder", "init_args": decoder},
        "auxiliary": None
        if heads.auxiliary_channels is None
        else {"class_path": "src.models.fcn_head.FCNHead", "init_args": auxiliary},
        "num_classes": heads.num_classes,
    }
    return {"class_path": "src.models.segmenter.Segmenter", "init_args": parts}


def known_preprocessing(published: PublishedWeights, image_size: int | None = None) -> tuple[Preprocessing, list[str]]:
    """How images become inputs, as the weights or a file beside them say, else the published way; and notes on it.

    Args:
        published: the weights.
        image_size: height and width of a crop in training, in pixels: images are scored with short sides of that; None
            for 512.

    Raises:
        ValueError: they take other images than RGB and do not say how.
    """
    if told := own_section(published.facts).get("preprocessing"):
        return Preprocessing.from_dict(told), []
    if published.layout == "transformers" and (found := told_preprocessing(published.path)):
        return found[0], [found[1]]
    channels = published.state["encoder.patch_embed.proj.weight"].shape[1]
    if channels != len(Preprocessing().mean):
        raise ValueError(
            f"{published.source} must take RGB images, got {channels} channels, whose mean and deviation nothing "
            f"tells; write a `.pth` or `.safetensors`, and load it into a model of your own with --model.weights."
        )
    size = image_size or SEGMENTOR_SIZE
    taken = Preprocessing(resize=(4 * size, size))
    return taken, [f"nothing tells the preprocessing; ADE20K's published one was taken: {taken.to_dict()}"]


def own_checkpoint(
    published: PublishedWeights, classes: ClassList | None, preprocessing: Preprocessing
) -> dict[str, Any]:
    """A checkpoint of this toolkit for validation and prediction; it has no state of a training to go on from.

    Args:
        published: the weights of a segmentor.
        classes: what its outputs stand for.
        preprocessing: how images become inputs.

    Raises:
        ImportError: a part of the model is from a package that is not installed.
        ValueError: nothing tells the classes or how to build the model, or weights of it are missing.
    """
    settings = segmenter_settings(published)
    count = settings["init_args"]["num_classes"]
    if classes is None:
        raise ValueError(
            f"the {count} classes of {published.source} must be named, and its file does not; give "
            f"--classes a text file with one class a line, or `ade20k` where they are its 150."
        )
    with no_larger_than(published.state):
        model = built(settings, Segmenter, published.source)
    weights = whole(segmentor_state(published))
    take_weights(model, weights, published.source)
    section = checkpoint_section(model, classes, preprocessing)
    arguments = {name: section[name] for name in ("model", "classes", "preprocessing")}
    task = own_section(published.facts).get("task") or {"class_path": _TASK, "init_args": {}}
    task = {"class_path": task["class_path"], "init_args": {**task["init_args"], **arguments}}
    return {
        SECTION: section | {"task": task},
        "state_dict": {f"model.{name}": value for name, value in weights.items()},
        "pytorch-lightning_version": version("lightning"),
        "epoch": 0,
        "global_step": 0,
    }


def segmentor_state(published: PublishedWeights) -> State:
    """The weights without a classifier's, which a segmentor does not use.

    Args:
        published: the weights.
    """
    return {name: value for name, value in published.state.items() if not name.startswith("classifier.")}


def whole(state: State) -> State:
    """Weights with the counts of batches that their norms expect beside running statistics, where a file lacks them.

    Args:
        state: tensors by name.
    """
    counts = {
        f"{name.removesuffix('running_mean')}num_batches_tracked": torch.tensor(0)
        for name in state
        if name.endswith(".running_mean")
    }
    return state | {name: count for name, count in counts.items() if name not in state}
