"""Published weights of one layout as a file that another library, or this toolkit, takes."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from src.classes import ClassList
from src.models.pretrained import CONFIG
from src.models.section import SECTION, checked
from src.weights.described import EncoderDescription
from src.weights.hub_config import hub_config
from src.weights.layouts.buffers import buffers
from src.weights.layouts.layout import Kind, Layout, State
from src.weights.layouts.recognise import layout_named
from src.weights.own import SWIN, own_section, window_facts
from src.weights.processor import PROCESSOR, processor_config
from src.weights.published import PublishedWeights, fetched, read_published
from src.weights.rebuilt import SEGMENTOR_SIZE, known_preprocessing, own_checkpoint, segmentor_state, whole
from src.weights.target_limits import check_windows, facts_left, other_function, without_auxiliary
from src.weights.written import check_apart, check_destination, write_file, write_folder
from src.wording import listed

Target = Literal["transformers", "mmseg", "official", "microsoft", "timm", "torchvision", "toolkit"]

TARGETS: tuple[Target, ...] = get_args(Target)
_CORE = ("encoder.patch_embed.", "encoder.absolute_pos_embed", "encoder.layers.", "decoder.", "auxiliary.")
_BUFFERED = ("mmseg", "official", "microsoft", "torchvision")


@dataclass(frozen=True)
class Conversion:
    """What was written.

    Args:
        source: where the weights came from, as the user named it.
        layout: the layout that they had.
        path: the file or folder.
        target: the layout that they have there.
        kind: what is there.
        count: number of tensors there.
        not_held: what the source has and the target does not.
        notes: what else a user should know.
    """

    source: str
    layout: str
    path: Path
    target: str
    kind: Kind
    count: int
    not_held: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.kind}, {self.target}, {self.count} tensors (from {self.source}, {self.layout})"]
        if self.not_held:
            lines.append(f"not held: {_grouped(self.not_held)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def convert(
    source: str | PathLike[str],
    out: str | PathLike[str],
    to: Target,
    image_size: int | None = None,
    classes: ClassList | None = None,
    prefix: str | None = None,
    overwrite: bool = False,
) -> Conversion:
    """Writes weights as another library has them; every tensor keeps its values and its type.

    Args:
        source: what ``load_weights`` takes.
        out: a file ``.pth``, ``.pt``, ``.bin``, ``.ckpt`` or ``.safetensors``; for ``transformers`` a folder.
        to: ``transformers``, ``mmseg``, ``official`` (the authors' code for segmentation), ``microsoft`` (theirs for
            classification), ``timm``, ``torchvision`` or ``toolkit`` (a ``.ckpt`` for ``src.predict``, or our names).
        image_size: height and width, in pixels, that the target's model is built for; None for the least at which its
            windows are the source's. For a ``.ckpt`` of the toolkit the crop of the training, 512 unless known, from
            which the size of images in scoring follows.
        classes: what the outputs stand for; None for what the source says.
        prefix: what stands before the names of the model that is meant, where the source holds several.
        overwrite: replace what is there.

    Raises:
        FileNotFoundError: there is no such source.
        ImportError: a part of a model of this toolkit is from a package that is not installed.
        ValueError: the source cannot be read, the target cannot hold it, or nothing may be written there.
    """
    if to not in TARGETS:
        raise ValueError(f"to must be one of {listed(TARGETS, len(TARGETS))}, got {to}; take one of these.")
    path = Path(out)
    check_destination(path, to == "transformers", overwrite)
    if path.exists():
        check_apart(path, fetched(source))
    published = read_published(source, prefix)
    if section := own_section(published.facts):
        checked({SECTION: dict(section), "state_dict": {}}, published.source, parts=("model",))
    named = _checked_classes(published, classes)
    if to == "toolkit":
        return _to_toolkit(published, path, named, image_size)
    layout, kind = _target(published, to)
    state, tensors, not_held = _translated(published, layout, kind)
    about = published.describe()
    size = image_size or _least_size(about)
    check_windows(about, to, size)
    if to in _BUFFERED:
        tensors |= buffers(to, state, about.known_windows, (size, size), about.pretrained_windows)
    notes = [*published.notes, *other_function(published, to, kind)]
    if to == "transformers":
        if kind != "classifier" and "classifier.norm.weight" not in published.state:
            notes.append("transformers has a norm after the last stage, which was added as it begins")
        square = image_size or (SEGMENTOR_SIZE if kind == "segmentor" else size)
        preprocessing, _ = known_preprocessing(published)
        if kind == "segmentor" and preprocessing.resize is not None:
            notes.append(f"transformers brings images to {square}x{square}; the ratio of their sides is not kept")
        texts = {
            CONFIG: hub_config(replace(published, state=state), kind, named, size),
            PROCESSOR: processor_config(preprocessing, kind, square),
        }
        write_folder(path, tensors, texts)
    else:
        not_held += facts_left(published, named, to, path)
        write_file(path, tensors, _container(to, named if kind == "segmentor" else None))
    return Conversion(published.source, published.layout, path, to, kind, len(tensors), tuple(not_held), tuple(notes))


def _checked_classes(published: PublishedWeights, given: ClassList | None) -> ClassList | None:
    outputs = published.state.get(
        "decoder.conv_seg.weight" if published.kind == "segmentor" else "classifier.head.weight"
    )
    if given is None:
        return published.classes
    if outputs is not None and len(given) != len(outputs):
        raise ValueError(
            f"--classes must name each of the {len(outputs)} outputs of {published.source}, got {len(given)} names; "
            f"give the list that it was trained with."
        )
    return given


def _target(published: PublishedWeights, to: Target) -> tuple[Layout, Kind]:
    """The layout to write, and what of the weights it can be."""
    if published.version is None:
        raise ValueError(
            f"{published.source} must hold a Swin to be written as {to}, got another encoder; `--to toolkit` keeps it."
        )
    kinds: tuple[Kind, ...] = (published.kind, "encoder")
    for kind in kinds:
        with suppress(ValueError):
            layout = layout_named(to, kind, published.version)
            if to == "transformers" and kind == "encoder" and "encoder.norm0.weight" not in published.state:
                layout = layout_named(to, "classifier", published.version)  # its plain model has no output norms
            return layout, kind
    return layout_named(to, published.kind, published.version), published.kind


def _translated(published: PublishedWeights, layout: Layout, kind: Kind) -> tuple[State, State, list[str]]:
    """The weights that are written under our names and under theirs, and what is left."""
    state = dict(published.state)
    if kind == "segmentor":
        if "decoder.bottleneck.bn.running_mean" not in state:
            raise ValueError(
                f"{published.source} must hold UPerNet with BatchNorm to be written as {layout.name}, got another "
                f"decoder; `--to toolkit` keeps it, `--to timm` and others hold its encoder."
            )
        state = whole(segmentor_state(published) if layout.name != "transformers" else state)
        state = without_auxiliary(state, layout.name)
    elif kind == "encoder":
        state = {name: value for name, value in state.items() if name.startswith(("encoder.", "classifier.norm."))}
    added = _last_norm(published) if layout.name == "transformers" and kind != "classifier" else {}
    tensors, left = layout.to_theirs(added | state, kind)
    if lost := [name for name in left if name.startswith(_CORE)]:
        raise ValueError(
            f"{published.source} must have no more than {layout.name} can hold, got {listed(lost, 3)}; write another "
            f"layout, `--to toolkit` holds all."
        )
    return state, tensors, [*(name for name in published.state if name not in state), *left, *published.left_over]


def _last_norm(published: PublishedWeights) -> State:
    """The norm after the last stage, as it begins, for models of transformers that have one and do not use it."""
    about = published.describe()
    width = about.embed_dim * 2 ** (len(about.depths) - 1)
    dtype = published.state["encoder.patch_embed.proj.weight"].dtype
    return {
        "classifier.norm.weight": torch.ones(width, dtype=dtype),
        "classifier.norm.bias": torch.zeros(width, dtype=dtype),
    }


def _least_size(about: EncoderDescription) -> int:
    """Height and width, in pixels, of an image whose coarsest map is one window."""
    side = max(about.windows[-1]) if about.windows else 7
    return about.patch_size * 2 ** (len(about.depths) - 1) * side


def _container(to: Target, classes: ClassList | None) -> Callable[[State], Any]:
    """What the library that reads a pickled file expects around the tensors."""
    meta: dict[str, Any] = {}
    if classes is not None and to == "official":
        meta = {"CLASSES": list(classes.names), "PALETTE": [list(colour) for colour in classes.palette]}
    if classes is not None and to == "mmseg":
        names = {"classes": list(classes.names), "palette": [list(colour) for colour in classes.palette]}
        meta = {"dataset_meta": names}
    if to in ("official", "mmseg"):
        return lambda tensors: {"meta": meta, "state_dict": tensors}
    return (lambda tensors: {"model": tensors}) if to == "microsoft" else lambda tensors: tensors


def _to_toolkit(
    published: PublishedWeights, path: Path, classes: ClassList | None, image_size: int | None
) -> Conversion:
    notes = list(published.notes)
    not_held = list(published.left_over)
    if published.kind == "segmentor" and path.suffix == ".ckpt":
        preprocessing, told_by = known_preprocessing(published, image_size)
        checkpoint = own_checkpoint(published, classes, preprocessing)
        notes += [*other_function(published, "toolkit", published.kind), *told_by]
        weights = checkpoint.pop("state_dict")
        write_file(path, weights, lambda tensors: checkpoint | {"state_dict": tensors})
        not_held += [name for name in published.state if f"model.{name}" not in weights]
    else:
        weights = segmentor_state(published) if published.kind == "segmentor" else published.state
        not_held += [name for name in published.state if name not in weights]
        not_held += facts_left(published, classes, "toolkit", path)
        if path.suffix == ".ckpt":
            notes.append(f"it has the weights of a {published.kind} alone: for --model.weights, not for --ckpt_path")
        told = _told_windows(published)
        metadata = {name: json.dumps(value) for name, value in told.items()}
        write_file(path, weights, lambda tensors: {"state_dict": tensors, **told} if told else tensors, metadata)
    return Conversion(
        published.source, published.layout, path, "toolkit", published.kind, len(weights), tuple(not_held), tuple(notes)
    )


def _told_windows(published: PublishedWeights) -> dict[str, Any]:
    """The windows as they stand beside weights under our names, where they are known."""
    about = None
    with suppress(ValueError):
        about = published.describe()
    if about is None or about.windows is None:
        return {}
    return {SWIN: window_facts(about.windows, about.pretrained_windows or [None] * len(about.windows))}


def _grouped(names: tuple[str, ...]) -> str:
    """Names of weights by the part that they are of, everything else as it is."""
    parts = Counter(
        ".".join(name.split(".")[:2]) if name.startswith("encoder.") else name.split(".")[0] for name in names
    )
    shown = [f"{name} ({count} tensors)" if count > 1 else name for name, count in parts.items()]
    return listed(shown, 8)
