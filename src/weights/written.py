"""Files and folders of weights that appear whole, in the place of nothing that is needed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from src.files import folder_written_beside, written_beside
from src.models.pretrained import CONFIG, WEIGHTS, own_memory, write_tensors
from src.weights.layouts.layout import State
from src.wording import listed

PROCESSOR = "preprocessor_config.json"
PICKLED = (".pth", ".pt", ".bin", ".ckpt")
SAFE = ".safetensors"


def check_destination(path: Path, source: str, is_folder: bool, overwrite: bool) -> None:
    """Sees that weights may be written to a path.

    Args:
        path: where they are to go.
        source: where they come from, as the user named it.
        is_folder: whether a folder is written, not a file.
        overwrite: whether what is there may be replaced.

    Raises:
        ValueError: it would replace the source or something else than weights, it is there, or its end is unknown.
    """
    given = Path(source).expanduser()
    if given.exists() and path.exists() and (given.samefile(path) or path.resolve() in given.resolve().parents):
        raise ValueError(f"OUT must be another place than IN, got {path} for {source}; choose another.")
    if not is_folder and path.suffix not in (*PICKLED, SAFE):
        ends = (*PICKLED, SAFE)
        raise ValueError(f"OUT must end in {listed(ends, len(ends))}, got {path}; choose such a name.")
    if is_folder and path.suffix in (*PICKLED, SAFE):
        raise ValueError(f"OUT must be a folder for --to transformers, got {path}; leave out {path.suffix}.")
    if not path.exists() or (is_folder and path.is_dir() and not any(path.iterdir())):
        return
    if path.is_dir() != is_folder:
        kind, got = ("folder", "file") if is_folder else ("file", "folder")
        raise ValueError(f"OUT must be a {kind}, got {path}, which is a {got}; choose another.")
    if not overwrite:
        raise ValueError(f"OUT must be new, got {path}, which is there; give --overwrite to replace it.")
    if is_folder and (others := sorted({entry.name for entry in path.iterdir()} - {CONFIG, WEIGHTS, PROCESSOR})):
        raise ValueError(
            f"OUT must be a folder of weights alone to be replaced, got {path} with {listed(others, 2)}; choose "
            f"another."
        )


def write_file(path: Path, tensors: State, contents: Callable[[State], Any]) -> None:
    """Writes tensors into one file.

    Args:
        path: the file; its end says whether it is pickled or ``.safetensors``.
        tensors: tensors by name.
        contents: what a pickled file holds, made of the tensors.

    Raises:
        ValueError: it cannot be written.
    """
    try:
        with written_beside(path) as beside:
            if path.suffix == SAFE:
                write_tensors(tensors, beside)
            else:
                torch.save(contents(own_memory(tensors)), beside)
    except (OSError, RuntimeError) as error:  # torch says RuntimeError of a disk that is full
        raise _unwritten(path, error) from error


def write_folder(path: Path, tensors: State, texts: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes tensors and JSON files into a folder.

    Args:
        path: the folder.
        tensors: tensors by name, for ``model.safetensors``.
        texts: what the other files hold, by name.

    Raises:
        ValueError: it cannot be written.
    """
    try:
        with folder_written_beside(path) as beside:
            write_tensors(tensors, beside / WEIGHTS)
            for name, values in texts.items():
                (beside / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: Exception) -> ValueError:
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return ValueError(f"{path} cannot be written ({reason}); make room, or choose another place.")
