"""What the libraries that weights are written for cannot hold, and what they compute otherwise."""

from pathlib import Path

from src.classes import ClassList
from src.layers.size import Size
from src.weights.described import EncoderDescription, described_heads
from src.weights.layouts.layout import Kind, State
from src.weights.own import own_arguments, own_section
from src.weights.published import PublishedWeights
from src.weights.told_windows import told_windows
from src.weights.written import SAFE

_ONE_WINDOW = ("official", "mmseg", "torchvision")
_AUXILIARY_LEVEL = 2
"""The only one that transformers' auxiliary head works on."""


def check_windows(about: EncoderDescription, to: str, image_size: int) -> None:
    """Sees that a library builds the windows of the weights.

    Args:
        about: the sizes of the encoder.
        to: the library.
        image_size: height and width, in pixels, that its model is built for.

    Raises:
        ValueError: it does not, or nothing tells the windows.
    """
    if to == "timm" and about.windows is None:
        return
    windows = about.known_windows
    if to in _ONE_WINDOW or (to == "transformers" and about.version == 1):
        if len(set(windows)) > 1:
            raise ValueError(
                f"the stages must share one window in {to}, got {_shown(windows)}; `--to toolkit` holds all."
            )
        return
    tokens = [max(1, image_size // about.patch_size // 2**stage) for stage in range(len(windows))]
    built = [(min(windows[0][0], side), min(windows[0][1], side)) for side in tokens]
    if built != list(windows):
        raise ValueError(
            f"the windows must be those that {to} builds for images of {image_size} pixels, {_shown(built)}, got "
            f"{_shown(windows)}; give another --image-size or none, or take `--to toolkit`, which holds all."
        )


def _shown(windows: list[Size] | tuple[Size, ...]) -> str:
    return ", ".join(f"{height}x{width}" for height, width in windows)


def without_auxiliary(state: State, to: str) -> State:
    """A segmentor's weights without its auxiliary head, where a library has none that works so.

    Args:
        state: tensors under our names.
        to: the library.
    """
    heads = described_heads(state)
    if to != "transformers" or heads is None or heads.auxiliary_level == _AUXILIARY_LEVEL:
        return state
    return {name: value for name, value in state.items() if not name.startswith("auxiliary.")}


def facts_left(published: PublishedWeights, classes: ClassList | None, to: str, path: Path) -> list[str]:
    """What is known beside the weights and has no place in a file.

    Args:
        published: the weights.
        classes: what their outputs stand for.
        to: the library.
        path: the file that is written.
    """
    left = []
    if classes is not None and (to not in ("official", "mmseg") or path.suffix == SAFE):
        left.append("names of the classes")
    if own_section(published.facts).get("preprocessing"):
        left.append("preprocessing")
    if to == "timm" and not _tells_windows(published.describe(), path):
        left.append("windows")
    return left


def _tells_windows(about: EncoderDescription, path: Path) -> bool:
    """Whether the weights or the name of their file tell the windows, where these are known."""
    if about.windows is None or (about.version == 1 and all(height == width for height, width in about.windows)):
        return True
    told = told_windows({}, {}, path.name, len(about.windows))
    if told is None:
        return False
    reach = about.pretrained_windows or [None] * len(about.windows)
    return told.used == about.windows and all(
        (one or own) == (other or own) for one, other, own in zip(told.pretrained, reach, about.windows, strict=True)
    )


def other_function(published: PublishedWeights, to: str, kind: Kind) -> list[str]:
    """In what the target's code computes something else than the model that the weights are of, in sentences.

    Args:
        published: the weights.
        to: the library, or ``toolkit`` for a checkpoint.
        kind: what is written.
    """
    notes = []
    arguments = own_arguments(published.facts, "encoder")
    if arguments.get("padded_keys") == "mask" and to != "toolkit":
        notes.append(f"the model keeps padding out of attention (padded_keys: mask), {to} does not")
    ours, theirs = _shifts_before(published), _shifts_after(published, to, kind)
    if ours is False and theirs:
        notes.append(f"the model has no shift where a window covers the map (shift_covered: false), {to} has")
    if ours and theirs is False:
        notes.append(f"the model has a shift also where a window covers the map (shift_covered: true), {to} has none")
    if published.layout == "smp" and to != "timm":
        notes.append(
            f"smp pads maps after the shift of their windows and norms the outputs with an epsilon of 1e-6, {to} "
            f"before it and with 1e-5"
        )
    if to in ("microsoft", "mmseg") and (embed := published.state.get("encoder.absolute_pos_embed")) is not None:
        height, width = embed.shape[2:]
        if height != width:
            notes.append(f"the file does not tell the grid of the position embedding, {height}x{width} tokens")
    return notes


def _shifts_before(published: PublishedWeights) -> bool | None:
    """Whether the model shifts windows that cover the map; None where nothing tells."""
    if arguments := own_arguments(published.facts, "encoder"):
        return bool(arguments.get("shift_covered", published.version == 1))
    if published.layout == "toolkit":
        return None
    shifts = published.layout in ("official", "mmseg") or (
        published.layout == "transformers" and published.kind == "segmentor"
    )
    return shifts and published.version == 1


def _shifts_after(published: PublishedWeights, to: str, kind: Kind) -> bool | None:
    if to == "toolkit":
        return None if own_arguments(published.facts, "encoder") else published.version == 1
    backbone = kind == "segmentor" or "encoder.norm0.weight" in published.state
    shifts = to in ("official", "mmseg") or (to == "transformers" and backbone)
    return shifts and published.version == 1
