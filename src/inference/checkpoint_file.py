"""Opening a file of ``torch.save`` without running anything that is in it, with a plain answer where that fails."""

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch


def load_file(path: str | Path, map_location: Any = "cpu") -> Any:
    """What ``torch.save`` wrote into a file; no code in the file is run.

    Args:
        path: the file.
        map_location: where tensors go, as in ``torch.load``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, may not be read, is empty, cut or damaged, or is of another program.
    """
    try:
        reason = _seen_from_outside(Path(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"ckpt_path must be a checkpoint file, got {path}, which does not exist; training writes best.ckpt and "
            f"last.ckpt into the folder of its run."
        ) from error
    except IsADirectoryError as error:
        raise ValueError(
            f"ckpt_path must be a checkpoint file, got {path}, which is a folder; give one in it."
        ) from error
    except OSError as error:
        raise ValueError(f"ckpt_path must be a file that may be read, got {path} ({error.strerror}).") from error
    if reason is None:
        try:
            return torch.load(path, map_location=map_location, weights_only=True, mmap=True)
        except Exception as error:  # damaged bytes end in errors of every type
            raise _unreadable(path, _reason(error)) from error
    raise _unreadable(path, reason)


def _unreadable(path: str | Path, reason: str) -> ValueError:
    return ValueError(f"{path} cannot be read as a checkpoint: {reason}; copy it again or give another one.")


def _seen_from_outside(path: Path) -> str | None:
    """Why the file cannot be a checkpoint, as far as that shows without loading it."""
    with path.open("rb") as file:
        head = file.read(4)
        if not head:
            return "it is empty"
        if head != b"PK\x03\x04":
            return "it is cut or of another program"
        try:
            with zipfile.ZipFile(file) as archive:
                names = [name.rpartition("/")[2] for name in archive.namelist()]
                damaged = archive.testzip() is not None
        except Exception:  # damaged bytes end in errors of every type
            return "it is cut or damaged"
    if damaged:
        return "it is damaged"
    if "constants.pkl" in names:
        return "it is a TorchScript program"
    return None if "data.pkl" in names else "it is an archive of another program"


def _reason(error: Exception) -> str:
    foreign = re.search(r"GLOBAL (\S+)", str(error))
    if foreign:
        return f"it holds an object of {foreign[1]}, and nothing that could run code is loaded"
    if isinstance(error, pickle.UnpicklingError):
        return "it is damaged"
    return f"it could not be loaded ({(str(error).splitlines() or [type(error).__name__])[0][:200]})"
