"""Files that have been fetched once: where they lie, and what their names tell of their content."""

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import torch

from src.download.address import check_address
from src.download.fetch import download

_SUM = re.compile(r"-(?P<sum>[0-9a-f]{8,64})(\.\w+){0,2}\Z")
_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])")
_LONGEST = 150


def cached(url: str) -> Path:
    """The file at an address, fetched where it is not here already.

    Where the name ends with the beginning of the file's SHA-256, as with ``swin_t-704ceda3.pth``, the file lies where
    ``torch.hub`` keeps its files, so that either finds the other's, and is held against that sum each time. Other files
    lie below, each address in a folder of its own.

    Args:
        url: the address, http or https.

    Raises:
        ValueError: it is no address, or the file cannot be fetched or is another than its name tells.
    """
    check_address(url)
    path, sha256 = place_of(url)
    download(url, path, sha256)
    return path


def is_kept(path: str | os.PathLike[str]) -> bool:
    """Whether a file was fetched from an address and kept, so that it can be fetched again once it is removed.

    Args:
        path: of the file.
    """
    return Path(path).absolute().is_relative_to(_folder().absolute())


def place_of(url: str) -> tuple[Path, str | None]:
    """Where the file at an address is kept, and how its SHA-256 must begin; None where its name does not tell.

    Args:
        url: the address.
    """
    name = urlsplit(url).path.rpartition("/")[2]
    name = "weights" if name in ("", ".", "..") else name.encode()[-_LONGEST:].decode(errors="ignore")
    folder = _folder()
    sha256 = sum_in(name)
    return (folder if sha256 else folder / hashlib.sha256(url.encode()).hexdigest()[:16]) / name, sha256


def _folder() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints"


def sum_in(name: str) -> str | None:
    """How the SHA-256 of a file begins as its name has it, which must end with it; None where there is only a date.

    Args:
        name: of the file.
    """
    found = _SUM.search(name)
    return None if not found or _DATE.fullmatch(found["sum"]) else found["sum"]
