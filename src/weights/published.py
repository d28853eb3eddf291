"""Published weights under our names."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from src.classes import ClassList
from src.download.origins import located
from src.weights.contents import FileContents, read_contents
from src.weights.described import EncoderDescription, described_encoder, stage_depths
from src.weights.geometry import Windows, told_windows
from src.weights.layouts.layout import Kind, State
from src.weights.layouts.recognise import Recognised, kind_of, recognise
from src.weights.layouts.toolkit import TOOLKIT
from src.weights.named import NAMED, find_named
from src.weights.own import own_section
from src.weights.told_classes import told_classes
from src.wording import listed

_SHOWN = 3


@dataclass(frozen=True)
class PublishedWeights:
    """What a file of published weights holds.

    Args:
        source: how the user named it.
        layout: name of its layout.
        kind: image classifier, encoder alone, or encoder with heads.
        version: of Swin, 1 or 2; None where the encoder is another one.
        state: tensors under our names.
        left_over: its names for which the layout has no place.
        classes: what its outputs stand for, where it says so and it has heads.
        windows: its windows, where it says so.
        facts: plain values that it holds beside.
        notes: what a user should know of the reading.
    """

    source: str
    layout: str
    kind: Kind
    version: Literal[1, 2] | None
    state: State
    left_over: tuple[str, ...]
    classes: ClassList | None
    windows: Windows | None
    facts: Mapping[str, Any]
    notes: tuple[str, ...]

    def describe(self) -> EncoderDescription:
        """The sizes of its encoder.

        Raises:
            ValueError: it is no Swin.
        """
        used, pretrained = self.windows or (None, None)
        try:
            return described_encoder(self.state, used, pretrained)
        except ValueError as error:
            raise ValueError(f"{self.source}: {error}") from error


def fetched(source: str | PathLike[str]) -> Path:
    """The file or folder of weights on this machine, fetched where it is not there yet.

    Args:
        source: a named weight (see ``src.weights.named``), a file, a folder, an address (``https://...``),
            ``hf:owner/name[@revision]`` or ``timm:name``.

    Raises:
        FileNotFoundError: there is no such source.
        ValueError: it cannot be fetched.
    """
    named = find_named(str(source))
    try:
        return located(source if named is None else named.source)
    except FileNotFoundError as error:
        near = get_close_matches(str(source), NAMED, n=1)
        raise FileNotFoundError(
            f"{str(error).rstrip('.')}; {f'did you mean {near[0]}? ' if near else ''}`python -m src.convert_weights "
            f"--list` names published ones."
        ) from error


def read_published(source: str | PathLike[str], prefix: str | None = None) -> PublishedWeights:
    """Reads weights of any published layout; no code in a file is run.

    Args:
        source: see ``fetched``.
        prefix: what stands before the names of the model that is meant, where a file holds several.

    Raises:
        FileNotFoundError: there is no such source.
        ValueError: it cannot be fetched or read, or its layout is not known.
    """
    told = str(source)
    path = fetched(source)
    contents = read_contents(path)
    try:
        found = (_own(contents) if prefix is None else None) or recognise(list(contents.tensors), prefix)
    except ValueError as error:
        raise ValueError(f"{told}: {error}") from error
    below = {
        name.removeprefix(found.prefix): value
        for name, value in contents.tensors.items()
        if name.startswith(found.prefix)
    }
    try:
        state, left_over = found.layout.to_ours(below, found.root)
    except ValueError as error:
        raise ValueError(f"{told}: {error}; the file is damaged or of another model.") from error
    _check_values(state, told)
    kind = kind_of(state)
    return PublishedWeights(
        source=told,
        layout=found.layout.name,
        kind=kind,
        version=_version(state),
        state=state,
        left_over=tuple(left_over),
        classes=_classes(state, contents) if kind == "segmentor" else None,
        windows=told_windows(below, contents.facts, str(path), len(stage_depths(state))),
        facts=contents.facts,
        notes=contents.notes,
    )


def _own(contents: FileContents) -> Recognised | None:
    """The place of the weights in a file that this toolkit wrote, whatever the names of its parts are like."""
    if not own_section(contents.facts):
        return None
    return Recognised(
        TOOLKIT, "" if any(name.startswith("encoder.") for name in contents.tensors) else "model.", "encoder."
    )


def _version(state: State) -> Literal[1, 2] | None:
    if "encoder.layers.0.blocks.0.attn.logit_scale" in state:
        return 2
    return 1 if any(name.endswith(".relative_position_bias_table") for name in state) else None


def _classes(state: State, contents: FileContents) -> ClassList | None:
    outputs = state.get("decoder.conv_seg.weight")
    return None if outputs is None else told_classes(contents.facts, len(outputs))


def _check_values(state: State, source: str) -> None:
    damaged = [name for name, value in state.items() if value.is_floating_point() and not value.isfinite().all()]
    if damaged:
        raise ValueError(
            f"{source} must hold weights that are finite, got others in {listed(damaged, _SHOWN)}; take another file."
        )
