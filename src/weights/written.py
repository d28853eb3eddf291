"""Files and folders of weights that appear whole, in the place of nothing that is needed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from src.files import folder_written_beside, put_back, remove_stale_parts, written_beside
from src.models.pretrained import CONFIG, WEIGHTS, own_memory, write_tensors
from src.weights.layouts.layout import State
from src.weights.processor import PROCESSOR
from src.wording import listed

PICKLED = (".pth", ".pt", ".bin", ".ckpt")
SAFE = ".safetensors"


def check_destination(path: Path, is_folder: bool, overwrite: bool) -> None:
    """Sees that weights may be written to a path.

    Args:
        path: where they are to go.
        is_folder: whether a folder is written, not a file.
        overwrite: whether what is there may be replaced.

    Raises:
        ValueError: it would replace something else than weights, it is there, its end is unknown, or it cannot be.
    """
    if not is_folder and path.suffix not in (*PICKLED, SAFE):
        ends = (*PICKLED, SAFE)
        raise ValueError(f"OUT must end in {listed(ends, len(ends))}, got {path}; choose such a name.")
    if is_folder and path.suffix in (*PICKLED, SAFE):
        raise ValueError(f"OUT must be a folder for --to transformers, got {path}; leave out {path.suffix}.")
    try:
        _check_place(path, is_folder, overwrite)
    except OSError as error:
        raise _unwritten(path, error) from error


def _check_place(path: Path, is_folder: bool, overwrite: bool) -> None:
    above = next((place for place in path.absolute().parents if place.exists()), path)
    if not above.is_dir():
        raise ValueError(f"OUT must be in a folder, got {path}, and {above} is a file; choose another place.")
    if is_folder and path.resolve() == Path.cwd():
        raise ValueError(f"OUT must be another folder than the one you are in, got {path}; choose one in it.")
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


def check_apart(path: Path, source: Path) -> None:
    """Sees that writing to a path does not replace what weights are read from.

    Args:
        path: where they are to go.
        source: the file or folder that they come from, on this machine.

    Raises:
        ValueError: it would.
    """
    files = [source, *(source.iterdir() if source.is_dir() else ())]
    files += [each.parent / part for each in files if each.name.endswith(".index.json") for part in _parts(each)]
    within = path.resolve() in (parent for each in files for parent in each.resolve().parents)
    if path.exists() and (within or any(each.exists() and each.samefile(path) for each in files)):
        raise ValueError(f"OUT must be another place than IN, got {path} for {source}; choose another.")


def _parts(index: Path) -> set[str]:
    """The files that an index of weights names."""
    try:
        return {str(part) for part in json.loads(index.read_text("utf-8"))["weight_map"].values()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return set()


def write_file(
    path: Path, tensors: State, contents: Callable[[State], Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors into one file.

    Args:
        path: the file; its end says whether it is pickled or ``.safetensors``.
        tensors: tensors by name.
        contents: what a pickled file holds, made of the tensors.
        metadata: what a ``.safetensors`` file holds beside them.

    Raises:
        ValueError: it cannot be written.
    """
    try:
        place = path.resolve()  # a link stays, and what it leads to is replaced
        remove_stale_parts(place.parent)
        with written_beside(place) as beside:
            if path.suffix == SAFE:
                write_tensors(tensors, beside, metadata)
            else:
                with beside.open("wb") as file:
                    torch.save(contents(own_memory(tensors)), file)
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
        place = path.resolve()
        remove_stale_parts(place.parent)
        put_back(place)
        with folder_written_beside(place) as beside:
            write_tensors(tensors, beside / WEIGHTS)
            for name, values in texts.items():
                (beside / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: Exception) -> ValueError:
    cause = error.__context__ if isinstance(error.__context__, OSError) else error
    reason = getattr(cause, "strerror", None) or str(cause).splitlines()[0]
    return ValueError(f"{path} cannot be written ({reason}); make room, or choose another place.")
