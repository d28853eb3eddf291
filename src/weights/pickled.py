"""Reading a file of ``torch.save``, old or new, without running anything that is in it.

``torch.load`` either refuses files of mmengine and of older numpy (``weights_only=True``) or runs what they say. This
reads tensors and plain values out of all of them, whatever else they hold.
"""

import io
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

from src.download.cached_address import is_kept
from src.weights.plain_tree import plain_tree
from src.weights.stored import ForeignError, Storage
from src.weights.unpickler import Unpickler

_MAGIC = 0x1950A86A20F9469CFC6C
_BEGINNINGS = {
    b"version https://git-lfs": "it is a pointer of Git LFS, not the file itself; run `git lfs pull`",
    b"\x1f\x8b": "it is packed with gzip; unpack it",
    b"BZh": "it is packed with bzip2; unpack it",
    b"\xfd7zXZ": "it is packed with xz; unpack it",
    b"\x89HDF": "it is a file of HDF5, which Keras and others write",
}


def load_pickled(path: str | Path) -> Any:
    """What ``torch.save`` wrote into a file: its tensors, on the CPU, and its plain values.

    Plain are dict, list, tuple, set, str, int, float, bool, bytes and None; numbers of numpy become Python's, arrays of
    numbers tensors. Objects of the libraries that such files are full of vanish, together with what they hold.

    Args:
        path: the file, with any suffix.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, may not be read, is empty, cut or damaged, is of another program, a TorchScript
            program among them, or it holds an object that is not known.
    """
    check_file(path)
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _of_archive(file, path) if file.read(4) == b"PK\x03\x04" else _of_stream(file)
    except ForeignError as error:
        raise unreadable(path, str(error)) from error
    except Exception as error:  # damaged bytes end in errors of every type
        raise unreadable(path, "it is cut or damaged, or of another program") from error


def check_file(path: str | Path) -> None:
    """Looks at a file of weights from outside.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder or a device, may not be read, is empty, or is plainly something else.
    """
    try:
        if not stat.S_ISREG(mode := Path(path).stat().st_mode) and not stat.S_ISDIR(mode):
            raise ValueError("a device or a pipe")  # reading one may never end
        with Path(path).open("rb") as file:
            head = file.read(512)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} must be a file of weights, got nothing there; check the path.") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} must be a file of weights, got a folder; give a file in it.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} must be a file that may be read, got {reason}; check the path.") from error
    if not head:
        raise unreadable(path, "it is empty")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise unreadable(
            path, "it is a web page, not the file that the page is about; take the link to the file itself"
        )
    if head[257:262] == b"ustar":
        raise unreadable(path, "it is a tar archive, which releases of torch before 0.1.10 wrote; unpack or convert it")
    for beginning, what in _BEGINNINGS.items():
        if head.startswith(beginning):
            raise unreadable(path, what)


def unreadable(path: str | Path, reason: str) -> ValueError:
    """The error for a file that cannot be read as weights.

    Args:
        path: the file.
        reason: why, as a sentence without an end.
    """
    remedy = "remove it and start again, or give another one" if is_kept(path) else "copy it again or give another one"
    return ValueError(f"{path} cannot be read as weights: {reason}; {remedy}.")


def _of_archive(file: BinaryIO, path: Path) -> Any:
    """What a file in the form that torch has written since 1.6 holds: a zip archive with the pickle in it."""
    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:  # damaged bytes end in errors of every type
        raise ForeignError("it is cut or damaged") from error
    with archive:
        members = {member.filename: member for member in archive.infolist()}
        if any(name.rpartition("/")[2] == "constants.pkl" for name in members):
            raise ForeignError("it is a TorchScript program; take the weights of the model that it was made from")
        trees = [
            name for name in members if name == "data.pkl" or (name.endswith("/data.pkl") and name.count("/") == 1)
        ]
        if len(trees) != 1 or len(members) != len(archive.infolist()):
            raise ForeignError("it is an archive of another program")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members.values()):
            raise ForeignError("it is an archive that another program has packed again; take the one that torch wrote")
        if archive.testzip() is not None:
            raise ForeignError("it is damaged")
        root = trees[0].removesuffix("data.pkl")
        swapped = f"{root}byteorder" in members and archive.read(f"{root}byteorder") == b"big"
        tree = Unpickler(io.BytesIO(archive.read(trees[0])), {}).load()
    whole = torch.UntypedStorage.from_file(str(path), False, path.stat().st_size)

    def memory(storage: Storage) -> torch.UntypedStorage:
        member = members[f"{root}data/{storage.key}"]
        start = _begin(file, member)
        found = whole[start : start + member.file_size]
        return _in_order(found.clone() if start % storage.dtype.itemsize else found, storage.dtype, swapped)

    return plain_tree(tree, memory)


def _begin(file: BinaryIO, member: zipfile.ZipInfo) -> int:
    """Where in a file the content of an archive's member begins."""
    file.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", file.read(4))
    return member.header_offset + 30 + name + extra


def _of_stream(file: BinaryIO) -> Any:
    """What a file in the form before torch 1.6 holds: five pickles, and behind them the memory of the tensors."""
    file.seek(0)
    if Unpickler(file, {}).load() != _MAGIC:
        raise ForeignError("it is a pickle of another program than torch.save")
    Unpickler(file, {}).load()
    machine = Unpickler(file, {}).load()
    storages: dict[str, Storage] = {}
    tree = Unpickler(file, storages).load()
    contents = {}
    for key in Unpickler(file, {}).load():
        storage = storages[str(key)]
        (count,) = struct.unpack("<q", file.read(8))
        content = file.read(count * storage.dtype.itemsize) if count == storage.count else b""
        if len(content) < storage.count * storage.dtype.itemsize:
            raise ForeignError("it is cut or damaged: the memory of a tensor is not all there")
        swapped = machine.get("little_endian") is False
        contents[storage.key] = _in_order(_memory(content), storage.dtype, swapped)
    return plain_tree(tree, lambda storage: contents[storage.key])


def _in_order(memory: torch.UntypedStorage, dtype: torch.dtype, swapped: bool) -> torch.UntypedStorage:
    """Memory in this machine's order of bytes."""
    if not swapped:
        return memory
    memory = memory.clone()
    memory.byteswap(dtype)
    return memory


def _memory(content: bytes) -> torch.UntypedStorage:
    if not content:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).untyped_storage()
