"""Published weights under our names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

from src.classes import ClassList
from src.download.origins import located
from src.models.rebuilding import is_finite
from src.weights.contents import FileContents, read_contents
from src.weights.described import EncoderDescription, described_encoder, stage_depths
from src.weights.layouts.layout import Kind, State
from src.weights.layouts.recognise import Recognised, kind_of, recognise
from src.weights.layouts.toolkit import TOOLKIT
from src.weights.named import NAMED, find_named
from src.weights.own import own_section
from src.weights.told_classes import told_classes
from src.weights.told_windows import Windows, told_windows
from src.weights.wrappers import unwrapped
from src.wording import listed

_EMBED = "encoder.absolute_pos_embed"
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
        grid_is_told: whether its absolute position embedding has the grid of the training; else a square one, or one
            row.
        facts: plain values that it holds beside.
        notes: what a user should know of the reading.
        path: the file that was read; of several parts, their index.
    """

    source: str
    layout: str
    kind: Kind
    version: Literal[1, 2] | None
    state: State
    left_over: tuple[str, ...]
    classes: ClassList | None
    windows: Windows | None
    grid_is_told: bool
    facts: Mapping[str, Any]
    notes: tuple[str, ...]
    path: Path

    def describe(self) -> EncoderDescription:
        """The sizes of its encoder.

        Raises:
            ValueError: it is no Swin.
        """
        used, pretrained = self.windows or (None, None)
        try:
            return described_encoder(self.state, used, pretrained)
        except (ValueError, ArithmeticError, LookupError, TypeError) as error:
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


def read_published(source: str | PathLike[str] | Mapping[str, Any], prefix: str | None = None) -> PublishedWeights:
    """Reads weights of any published layout; no code in a file is run.

    Args:
        source: see ``fetched``; or a state dict.
        prefix: what stands before the names of the model that is meant, where a file holds several.

    Raises:
        FileNotFoundError: there is no such source.
        ValueError: it cannot be fetched or read, or its layout is not known.
    """
    told, contents = _contents(source)
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
    state, grid_is_told = _with_grid(state, contents.facts)
    return PublishedWeights(
        source=told,
        layout=found.layout.name,
        kind=kind,
        version=_version(state),
        state=state,
        left_over=tuple(left_over),
        classes=_classes(state, contents.facts, told) if kind == "segmentor" else None,
        windows=told_windows(below, contents.facts, str(contents.path), len(stage_depths(state))),
        grid_is_told=grid_is_told,
        facts=contents.facts,
        notes=contents.notes,
        path=contents.path,
    )


def _contents(source: str | PathLike[str] | Mapping[str, Any]) -> tuple[str, FileContents]:
    if not isinstance(source, Mapping):
        return str(source), read_contents(fetched(source))
    told = "the state dict"
    try:
        found = unwrapped(source)
    except ValueError as error:
        raise ValueError(f"{told} cannot be read as weights: {error}; give that of a model.") from error
    return told, FileContents(Path(told), found.tensors, found.facts, found.notes)


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


def _classes(state: State, facts: Mapping[str, Any], source: str) -> ClassList | None:
    outputs = state.get("decoder.conv_seg.weight")
    if outputs is None:
        return None
    named, ade20k = find_named(source), ClassList.ade20k()
    if named is not None and named.trained_on[-1:] == ("ade20k",) and len(outputs) == len(ade20k):
        return ade20k
    return told_classes(facts, len(outputs))


def _with_grid(state: State, facts: Mapping[str, Any]) -> tuple[State, bool]:
    """Weights whose absolute position embedding has a grid, and whether something tells which.

    Most files keep it as one row of tokens, of a square grid unless a config tells another.
    """
    embed = state.get(_EMBED)
    if embed is None or embed.ndim != 4 or embed.shape[2] != 1:
        return state, embed is not None
    tokens = embed.shape[3]
    told = _told_grid(facts, tokens)
    grid = told or ((side, side) if (side := math.isqrt(tokens)) ** 2 == tokens else (1, tokens))
    return state | {_EMBED: embed.reshape(1, embed.shape[1], *grid)}, told is not None


def _told_grid(facts: Mapping[str, Any], tokens: int) -> tuple[int, int] | None:
    config = facts.get("config")
    image, patch = (config.get(key) if isinstance(config, Mapping) else None for key in ("image_size", "patch_size"))
    sides = image if isinstance(image, list) else [image, image]
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in (*sides, patch)):
        return None
    height, width = (cast(int, side) // cast(int, patch) for side in sides)
    return (height, width) if height * width == tokens else None


def _check_values(state: State, source: str) -> None:
    if empty := [name for name, value in state.items() if not value.numel()]:
        raise ValueError(f"{source} must hold weights with values, got none in {listed(empty, _SHOWN)}; it is damaged.")
    if flat := [name for name, value in state.items() if name.endswith("conv_seg.weight") and value.ndim != 4]:
        raise ValueError(
            f"{source} must hold convolutions as classifiers, got another shape in {flat[0]}; it is damaged."
        )
    damaged = [name for name, value in state.items() if not is_finite(value)]
    if damaged:
        raise ValueError(
            f"{source} must hold weights that are finite, got others in {listed(damaged, _SHOWN)}; take another file."
        )
