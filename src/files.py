"""Writing files so that nobody ever sees half of one."""

import contextlib
import os
import platform
import re
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

_PART = re.compile(r"\.[0-9a-f]{8}(-[0-9a-f]+)?\.(?P<machine>.*)\.(?P<process>\d+)\.(part|old)")
_HOUR = 3600
_SWAP = threading.Lock()


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Gives a path beside ``path`` to write to; it is renamed to ``path`` at the end, or removed after an error.

    Args:
        path: the file to write; its folder is made where there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _part(path)
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_written_beside(path: Path) -> Iterator[Path]:
    """Gives a new folder beside ``path`` to write into; at the end it takes the place of ``path``, or goes on an error.

    Args:
        path: the folder to write; one that is there is replaced, with all that is in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _part(path)
    old = beside.with_suffix(".old")  # not a part: a process that ends in between leaves it for put_back
    _remove(beside)
    try:
        beside.mkdir()
        yield beside
        with _SWAP:
            if path.exists():
                path.replace(old)  # no call puts one folder in the place of another
            try:
                beside.replace(path)
            except OSError:
                if old.exists():
                    old.replace(path)
                raise
    finally:
        _remove(beside)
        if path.exists():
            _remove(old)


def remove_stale_parts(folder: Path) -> None:
    """Removes what the functions above were writing into a folder when their process was killed.

    A part goes if its process was one of this machine and has ended, or if nobody has written to it for an hour.

    Args:
        folder: where to look, without the folders inside it; it may be absent.
    """
    for path in folder.glob(".*.part"):
        with contextlib.suppress(OSError):  # another has removed it, or owns it
            if _is_left(path):
                _remove(path)


def put_back(path: Path) -> None:
    """Puts a folder back that ``folder_written_beside`` had moved away when its process was killed.

    Args:
        path: the folder; where it is there, what was moved away is removed.
    """
    for old in path.parent.glob(f".{_number(path)}*.old"):
        with _SWAP, contextlib.suppress(OSError):
            if not _is_left(old):
                continue
            if path.exists():
                _remove(old)
            else:
                old.replace(path)


def _part(path: Path) -> Path:
    return path.with_name(f".{_number(path)}-{threading.get_ident():x}.{_machine()}.{os.getpid()}.part")


def _number(path: Path) -> str:
    # instead of the name, which with anything added could be longer than a file system allows
    return f"{zlib.crc32(os.fsencode(path.name)):08x}"


def _is_left(path: Path) -> bool:
    """Whether nobody will come back to a part or to what was moved away."""
    match = _PART.fullmatch(path.name)
    if not match:
        return False
    found = path.stat()
    touched = max(found.st_mtime, found.st_ctime) if path.suffix == ".old" else found.st_mtime
    return _has_ended(match["machine"], match["process"]) or time.time() - touched > _HOUR


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _machine() -> str:
    return platform.node()[:64]


def _has_ended(machine: str, process: str) -> bool:
    if machine != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
