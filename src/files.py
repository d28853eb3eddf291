"""Writing files so that nobody ever sees half of one."""

import contextlib
import os
import platform
import re
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

_PART = re.compile(r"\.[0-9a-f]{8}\.(?P<machine>.*)\.(?P<process>\d+)\.part")
_HOUR = 3600


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
    old = beside.with_suffix(".old")  # not a part: a process that ends in between leaves it for its owner
    _remove(beside)
    try:
        beside.mkdir()
        yield beside
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
        match = _PART.fullmatch(path.name)
        with contextlib.suppress(FileNotFoundError):
            if match and (_has_ended(**match.groupdict()) or time.time() - path.stat().st_mtime > _HOUR):
                _remove(path)


def _part(path: Path) -> Path:
    # a number instead of the name, which with anything added could be longer than a file system allows
    number = zlib.crc32(os.fsencode(path.name))
    return path.with_name(f".{number:08x}.{_machine()}.{os.getpid()}.part")


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
