"""What a saved model says of itself: enough, in plain types, to build it again without a config."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from src.classes import ClassList
from src.models.rebuilding import usable
from src.models.settings import plain
from src.preprocessing import Preprocessing

LIBRARY = "swin-upernet-lightning"
"""The toolkit's name where others are named too."""

SECTION = "segmentation"
"""The key of a checkpoint under which the toolkit writes."""

FORMAT_VERSION = 1
"""Rises when an older release would read the section wrongly; keys that a release does not know are passed over."""

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older format version, what makes a checkpoint of the next version out of a whole one of this version."""

PARTS = ("model", "classes", "preprocessing")


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


def checked(checkpoint: Any, path: str | Path, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """A checkpoint in today's format, after a look at its section; a sharded one has no ``state_dict``.

    Args:
        checkpoint: what a file of any format version holds.
        path: the file, for errors.
        parts: what its section must have.

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
    values = {key: section.get(key) for key in (*parts, *(key for key in PARTS if section.get(key) is not None))}
    values |= {key: section[key] for key in ("task", "scores") if key in section}
    values |= {"state_dict": checkpoint["state_dict"]} if "state_dict" in checkpoint else {}
    if lacking := [key for key, value in values.items() if value is None]:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(lacking)}; take another checkpoint.")
    for key, value in values.items():
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise ValueError(
                f"{path} is damaged: its {key} must be names with values, got {type(value).__name__}; take another "
                f"checkpoint."
            )
    for key, read in (("classes", ClassList.from_dict), ("preprocessing", Preprocessing.from_dict)):
        if key in values:
            with usable(path):
                read(section[key])
    with usable(path):
        _check_arguments([section.get("model"), section.get("task")])
    return checkpoint


def _check_arguments(value: Any) -> None:
    if isinstance(value, Mapping):
        arguments = value.get("init_args", {})
        if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
            raise ValueError(f"init_args must be names with values, got {type(arguments).__name__}")
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        _check_arguments(each)
