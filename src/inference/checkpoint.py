"""What a checkpoint says of itself: enough, in plain types, to build the model again without a config."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from src.classes import ClassList
from src.inference.checkpoint_file import load_file
from src.inference.rebuilding import built, take_weights, usable
from src.models import Segmenter
from src.models.compiled import plain_name
from src.models.settings import Settings, check_importable, plain
from src.preprocessing import Preprocessing

SECTION = "segmentation"
"""The key of a checkpoint under which the toolkit writes."""

FORMAT_VERSION = 1
"""Rises when an older release would read the section wrongly; keys that a release does not know are passed over."""

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older format version, what makes a checkpoint of the next version out of a whole one of this version."""

_PREFIX = "model."


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint's model and what belongs to it.

    Args:
        path: the file, for errors.
        model: settings of the segmenter.
        classes: names and colours of its outputs.
        preprocessing: how images become inputs.
        state_dict: the segmenter's weights.
    """

    path: str | Path
    model: Settings
    classes: ClassList
    preprocessing: Preprocessing
    state_dict: dict[str, Tensor]

    def build(self) -> Segmenter:
        """The segmenter with its weights, in eval mode.

        Raises:
            ImportError: the model has a part from a package that is not installed.
            ValueError: the settings or the weights are damaged or of another release.
        """
        model = built(self.model, Segmenter, self.path)
        if model.num_classes != len(self.classes):
            raise ValueError(
                f"{self.path} is damaged: it names {len(self.classes)} classes for a model of {model.num_classes}; "
                f"take another checkpoint."
            )
        take_weights(model, self.state_dict, self.path)
        return model.eval()


def checkpoint_section(model: nn.Module, classes: ClassList, preprocessing: Preprocessing) -> dict[str, Any]:
    """What to write into a checkpoint under ``SECTION``, plain types only.

    Args:
        model: the segmenter, with ``settings``.
        classes: names and colours of its outputs.
        preprocessing: how images become inputs.

    Raises:
        ValueError: a part of the model does not tell how it was built.
    """
    return {
        "format_version": FORMAT_VERSION,
        "model": plain(model, "model.model"),
        "classes": classes.to_dict(),
        "preprocessing": preprocessing.to_dict(),
    }


def load_checkpoint(path: str | Path, map_location: Any = "cpu") -> dict[str, Any]:
    """All that a checkpoint of this toolkit holds, in today's format; no code in the file is run.

    The names in ``state_dict`` are those of the model before ``torch.compile``, where that was called.

    Args:
        path: a ``.ckpt`` file.
        map_location: where tensors go, as in ``torch.load``.

    Returns:
        What the trainer saved, with what ``checkpoint_section`` gave under ``SECTION`` and the weights under
        ``state_dict``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or the file is cut, damaged, of another program or of a newer release.
    """
    checkpoint = checked(load_file(path, map_location), path)
    if "state_dict" not in checkpoint:
        raise ValueError(f"{path} is damaged: it lacks state_dict; take another checkpoint.")
    return checkpoint | {"state_dict": {plain_name(name): value for name, value in checkpoint["state_dict"].items()}}


def checked(checkpoint: Any, path: str | Path) -> dict[str, Any]:
    """A checkpoint in today's format, after a look at its section; a sharded one has no ``state_dict``.

    Args:
        checkpoint: what a file of any format version holds.
        path: the file, for errors.

    Raises:
        ValueError: it is damaged, of another program or of a newer release.
    """
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get(SECTION), dict):
        raise ValueError(
            f"{path} must be a checkpoint of this toolkit, got a file without `{SECTION}`; train one with src.fit."
        )
    version = checkpoint[SECTION].get("format_version")
    if type(version) is not int or version < 1:
        raise ValueError(
            f"{path} is damaged: its format version must be a whole number from 1, got {version!r}; take another "
            f"checkpoint."
        )
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} must have a format version up to {FORMAT_VERSION}, got {version}; update the toolkit to read it."
        )
    for older in range(version, FORMAT_VERSION):
        checkpoint = MIGRATIONS[older](checkpoint)
    section = checkpoint[SECTION] = checkpoint[SECTION] | {"format_version": FORMAT_VERSION}
    parts = {key: section.get(key) for key in ("model", "classes", "preprocessing")}
    parts |= {key: where[key] for key, where in (("task", section), ("state_dict", checkpoint)) if key in where}
    if lacking := [key for key, value in parts.items() if value is None]:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(lacking)}; take another checkpoint.")
    for key, value in parts.items():
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise ValueError(
                f"{path} is damaged: its {key} must be names with values, got {type(value).__name__}; take another "
                f"checkpoint."
            )
    for key, read in (("classes", ClassList.from_dict), ("preprocessing", Preprocessing.from_dict)):
        with usable(path):
            read(section[key])
    return checkpoint


def read_checkpoint(path: str | Path) -> CheckpointContents:
    """The model of a checkpoint of this toolkit, see ``load_checkpoint``.

    Args:
        path: a ``.ckpt`` file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or the file is cut, damaged, of another program or of a newer release.
    """
    checkpoint = load_checkpoint(path)
    section = checkpoint[SECTION]
    return CheckpointContents(
        path=path,
        model=section["model"],
        classes=ClassList.from_dict(section["classes"]),
        preprocessing=Preprocessing.from_dict(section["preprocessing"]),
        state_dict={
            name.removeprefix(_PREFIX): value
            for name, value in checkpoint["state_dict"].items()
            if name.startswith(_PREFIX)
        },
    )


def read_section(path: str | Path) -> dict[str, Any]:
    """What the toolkit wrote into a checkpoint, see ``checkpoint_section``, with the settings of its ``task``.

    Args:
        path: a ``.ckpt`` file.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: the task has a part from a package that is not installed.
        ValueError: it is a folder, or the file is cut, damaged, of another program or of a newer release, or was not
            written by a task.
    """
    checkpoint = load_checkpoint(path)
    with usable(path):
        check_importable(task_settings(checkpoint, path))
    section: dict[str, Any] = checkpoint[SECTION]
    return section


def task_settings(checkpoint: Mapping[str, Any], path: str | Path) -> Settings:
    """The settings of the task that a checkpoint was written by.

    Args:
        checkpoint: what ``load_checkpoint`` gave.
        path: the file, for errors.

    Raises:
        ValueError: it was written by none.
    """
    if "task" not in checkpoint[SECTION]:
        raise ValueError(f"{path} must be a checkpoint of a task, got a model alone; use src.inference.load_predictor.")
    settings: Settings = checkpoint[SECTION]["task"]
    return settings
