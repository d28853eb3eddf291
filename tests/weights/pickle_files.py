"""Files of ``torch.save`` with pickles of any content, in the new form and in the old one."""

import io
import pickle
import struct
import sys
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

FORMS = ("archive", "stream")


def write(path: Path, pickled: bytes, form: str, memory: bytes = b"", keys: tuple[str, ...] = ()) -> Path:
    """Writes a file whose tree is ``pickled``; in the old form ``memory`` follows the list of ``keys``."""
    if form == "archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
            archive.writestr("archive/version", "3\n")
            for key in keys:
                archive.writestr(f"archive/data/{key}", memory)
        return path
    head = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    path.write_bytes(b"".join(pickle.dumps(part, 2) for part in head) + pickled + pickle.dumps(list(keys), 2) + memory)
    return path


def save(tree: Any, path: Path, form: str, protocol: int = 2) -> Path:
    """Writes a tree with torch itself."""
    torch.save(tree, path, _use_new_zipfile_serialization=form == "archive", pickle_protocol=protocol)
    return path


def tree_of(tree: Any, protocol: int = 2) -> bytes:
    """The pickle of a tree without tensors."""
    file = io.BytesIO()
    pickle.Pickler(file, protocol).dump(tree)
    return file.getvalue()


def text(value: str) -> bytes:
    """The codes that put a text on the stack."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def carrier(*names: str) -> bytes:
    """The codes that put what names stand for on the stack."""
    return b"".join(f"c{name.rpartition('.')[0]}\n{name.rpartition('.')[2]}\n".encode() for name in names)


@contextmanager
def module_with(name: str, **members: Any) -> Iterator[types.ModuleType]:
    """A module that is there while a file is written, and gone when it is read."""
    names = [".".join(name.split(".")[: count + 1]) for count in range(name.count(".") + 1)]
    assert not set(names) & set(sys.modules)
    for each in names:
        sys.modules[each] = types.ModuleType(each)
    for member, value in members.items():
        for inner, method in vars(value).items():
            if callable(method):
                method.__module__, method.__qualname__ = name, f"{member}.{inner}"
        value.__module__, value.__qualname__ = name, member
        setattr(sys.modules[name], member, value)
    try:
        yield sys.modules[name]
    finally:
        for each in names:
            del sys.modules[each]
