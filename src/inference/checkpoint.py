"""What a checkpoint says of itself: enough, in plain types, to build the model again without a config."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from src.classes import ClassList
from src.models import Segmenter
from src.models.compiled import plain_name
from src.models.settings import Settings, plain
from src.preprocessing import Preprocessing

SECTION = "segmentation"
"""The key of a checkpoint under which the toolkit writes."""

FORMAT_VERSION = 1
"""Rises when the section changes so that older releases cannot read it."""

_PREFIX = "model."


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint's model and what belongs to it.

    Args:
        model: settings of the segmenter.
        classes: names and colours of its outputs.
        preprocessing: how images become inputs.
        state_dict: the segmenter's weights.
    """

    model: Settings
    classes: ClassList
    preprocessing: Preprocessing
    state_dict: dict[str, Tensor]

    def build(self) -> Segmenter:
        """The segmenter with its weights, in eval mode."""
        model = Segmenter.from_settings(self.model)
        model.load_state_dict(self.state_dict)
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
    """All that a checkpoint of this toolkit holds; no code in the file is run.

    The names in ``state_dict`` are those of the model before ``torch.compile``, where that was called.

    Args:
        path: a ``.ckpt`` file.
        map_location: where tensors go, as in ``torch.load``.

    Returns:
        What the trainer saved, with what ``checkpoint_section`` gave under ``SECTION`` and the weights under
        ``state_dict``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or the file is cut, of another program or of a newer release.
    """
    if not Path(path).exists():
        raise FileNotFoundError(
            f"ckpt_path must be a checkpoint file, got {path}, which does not exist; training writes best.ckpt and "
            f"last.ckpt into the folder of its run."
        )
    if Path(path).is_dir():
        raise ValueError(f"ckpt_path must be a checkpoint file, got {path}, which is a folder; give one in it.")
    try:
        checkpoint = torch.load(path, map_location=map_location, weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{path} cannot be read as a checkpoint ({reason}); it may be cut or of another program."
        ) from error
    _check(checkpoint, path)
    return checkpoint | {"state_dict": {plain_name(name): value for name, value in checkpoint["state_dict"].items()}}


def _check(checkpoint: Any, path: str | Path) -> None:
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get(SECTION), dict):
        raise ValueError(
            f"{path} must be a checkpoint of this toolkit, got a file without `{SECTION}`; train one with src.fit."
        )
    section = checkpoint[SECTION]
    version = section.get("format_version", 0)
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} must have a format version up to {FORMAT_VERSION}, got {version}; update the toolkit to read it."
        )
    missing = [key for key in ("model", "classes", "preprocessing") if key not in section]
    if missing or "state_dict" not in checkpoint:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(missing) or 'state_dict'}; take another checkpoint.")


def read_checkpoint(path: str | Path) -> CheckpointContents:
    """The model of a checkpoint of this toolkit, see ``load_checkpoint``.

    Args:
        path: a ``.ckpt`` file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or the file is cut, of another program or of a newer release.
    """
    checkpoint = load_checkpoint(path)
    section = checkpoint[SECTION]
    return CheckpointContents(
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
    """What the toolkit wrote into a checkpoint, see ``checkpoint_section`` and ``load_checkpoint``.

    Args:
        path: a ``.ckpt`` file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or the file is cut, of another program or of a newer release.
    """
    return load_checkpoint(path)[SECTION]
