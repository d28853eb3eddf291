"""Unpacking a zip file of a data set: whole, inside its folder, or not at all."""

import lzma
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, UnicodeError, EOFError, RuntimeError)
"""What reading a damaged zip file raises."""


class UnfitArchiveError(ValueError):
    """The file is damaged or holds something else than it should, whatever room there is."""


def unpack(archive: Path, folder: Path) -> None:
    """Makes ``folder`` out of the one folder at the top of a zip file.

    Everything is unpacked beside ``folder`` and renamed at the end, so that nobody meets a part of it; what an earlier
    try left there is removed first. Every entry is checked against its checksum. One process at a time may do this.

    Args:
        archive: the zip file.
        folder: what to make, absent or empty.

    Raises:
        UnfitArchiveError: the file is no zip file, damaged, or holds something else than one folder of files.
        ValueError: the disk has no room for it.
    """
    beside = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            beside.mkdir(parents=True)
            top = _checked(file, archive, folder.parent)
            file.extractall(beside)
        (beside / top).rename(folder)
    except _DAMAGE as error:
        raise UnfitArchiveError(
            f"{archive} must be a whole zip file, got {error}; remove it and fetch it again."
        ) from error
    except OSError as error:
        raise ValueError(
            f"{archive} cannot be unpacked to {folder.absolute()} ({error}); make room there, or choose another folder."
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _checked(file: zipfile.ZipFile, archive: Path, parent: Path) -> str:
    """The name of the folder at the top, once nothing in the file can do harm."""
    entries = file.infolist()
    names = [PurePosixPath(entry.orig_filename) for entry in entries]
    for entry, name in zip(entries, names, strict=True):
        stored = entry.orig_filename
        outside = name.is_absolute() or not name.parts or ".." in name.parts or PureWindowsPath(stored).drive
        if outside or "\\" in stored or "\0" in stored:
            raise _refusal(archive, f"{stored!r}, which leads out of its folder")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise _refusal(archive, f"the link {name}")
    if doubled := len(names) - len(set(names)):
        raise _refusal(archive, f"{doubled} names twice")
    if len(tops := {name.parts[0] for name in names}) != 1 or all(len(name.parts) == 1 for name in names):
        raise _refusal(archive, f"{len(tops)} entries at its top")
    needed = sum(entry.file_size for entry in entries)
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise ValueError(
            f"{parent.absolute()} must have room for {archive.name}, got {free / 2**30:.2f} GiB of "
            f"{needed / 2**30:.2f} GiB; make room, or choose another folder."
        )
    return tops.pop()


def _refusal(archive: Path, what: str) -> UnfitArchiveError:
    return UnfitArchiveError(
        f"{archive} must hold one folder of files, got {what}; fetch it again from a place you trust."
    )
