"""Reading checkpoints of this toolkit, files of training and folders of ``Segmenter.save_pretrained`` alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from src.classes import ClassList
from src.files import put_back
from src.inference.checkpoint_file import load_file
from src.models import Segmenter
from src.models.compiled import plain_name
from src.models.pretrained import CONFIG, read_folder
from src.models.rebuilding import built, no_larger_than, take_weights, usable
from src.models.section import SECTION, checked
from src.models.settings import Settings, check_importable
from src.preprocessing import Preprocessing

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
        with no_larger_than(self.state_dict):
            model = built(self.model, Segmenter, self.path)
        if model.num_classes != len(self.classes):
            raise ValueError(
                f"{self.path} is damaged: it names {len(self.classes)} classes for a model of {model.num_classes}; "
                f"take another checkpoint."
            )
        take_weights(model, self.state_dict, self.path)
        return model.eval()


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


def read_checkpoint(path: str | Path) -> CheckpointContents:
    """The model of a checkpoint of this toolkit, see ``load_checkpoint``, or of a folder of ``save_pretrained``.

    Args:
        path: a ``.ckpt`` file or a folder.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is cut, damaged, of another program or of a newer release, or a folder says nothing of its
            classes or its preprocessing.
    """
    put_back(Path(path))
    if (Path(path) / CONFIG).is_file():
        section, state_dict = read_folder(path)
        if lacking := [key for key in ("classes", "preprocessing") if section.get(key) is None]:
            raise ValueError(
                f"{path} must tell its {' and '.join(lacking)} to label images, got a model without; save it again "
                f"with save_pretrained(..., classes=..., preprocessing=...)."
            )
    else:
        checkpoint = load_checkpoint(path)
        section = checkpoint[SECTION]
        weights = checkpoint["state_dict"].items()
        state_dict = {name.removeprefix(_PREFIX): value for name, value in weights if name.startswith(_PREFIX)}
    return CheckpointContents(
        path=path,
        model=section["model"],
        classes=ClassList.from_dict(section["classes"]),
        preprocessing=Preprocessing.from_dict(section["preprocessing"]),
        state_dict=state_dict,
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
