"""What a file or folder of weights holds: tensors by name and plain facts, whatever program wrote it."""

import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from torch import Tensor

from src.download.address import printable
from src.weights.pickled import check_file, load_pickled, unreadable
from src.weights.wrappers import Unwrapped, unwrapped
from src.wording import listed

_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt")
_INDEX = ".index.json"
_CONFIG = "config.json"
_MAIN = ("model.safetensors", f"model.safetensors{_INDEX}", "pytorch_model.bin", f"pytorch_model.bin{_INDEX}")
_LONGEST_HEADER = 100_000_000
_LONGEST_NAME = 255


@dataclass(frozen=True)
class FileContents:
    """What a file or folder of weights holds.

    Args:
        path: the file that was read; of several parts, their index.
        tensors: the weights by name, on the CPU.
        facts: plain values that stand beside them: what the program saved, the metadata of a safetensors file under
            ``safetensors``, the ``config.json`` of a folder under ``config``.
        notes: what a reader of a report should know of the choice that was made, in sentences without an end.
    """

    path: Path
    tensors: dict[str, Tensor]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_contents(path: Path) -> FileContents:
    """What a file or folder of weights holds; no code in it is run.

    A file is known by its content: of safetensors, of ``torch.save``, or an index of several. Of a folder the files are
    taken that transformers and timm write, or the only file of weights in it.

    Args:
        path: the file or folder.

    Raises:
        FileNotFoundError: there is nothing there, or a part is missing.
        ValueError: a file is cut, damaged, or of another program, holds no named tensors or an object that is not
            known, or a folder does not tell which of its files is meant.
    """
    file = _in_folder(path) if path.is_dir() else path
    config = file.parent / _CONFIG
    facts = {"config": _json(config)} if (path.is_dir() or file.name in _MAIN) and config.is_file() else {}
    found = _of_index(file) if file.name.endswith(_INDEX) else _of_file(file)
    return FileContents(file, found.tensors, found.facts | facts, found.notes)


def _in_folder(folder: Path) -> Path:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    main = next((name for name in _MAIN if name in names), None)
    if main:
        return folder / main
    weights = [name for name in names if name.endswith((*_SUFFIXES, _INDEX))]
    if len(weights) == 1:
        return folder / weights[0]
    if not weights:
        raise FileNotFoundError(
            f"{folder} must be a folder with weights, got {listed(names) or 'an empty one'}; give one with a file that "
            f"ends in {', '.join(_SUFFIXES)}."
        )
    raise ValueError(f"{folder} must be a folder with one file of weights, got {listed(weights)}; give one of them.")


def _of_file(file: Path) -> Unwrapped:
    check_file(file)
    if _is_safetensors(file):
        tree, facts = _of_safetensors(file)
    else:
        tree, facts = load_pickled(file), {}
    try:
        found = unwrapped(tree)
    except ValueError as error:
        raise unreadable(file, str(error)) from error
    return Unwrapped(found.tensors, found.facts | facts, found.notes)


def _is_safetensors(file: Path) -> bool:
    with file.open("rb") as opened:
        head = opened.read(9)
    return head[8:] == b"{" and int.from_bytes(head[:8], "little") <= _LONGEST_HEADER


def _of_safetensors(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import safe_open

    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            metadata = opened.metadata()
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except Exception as error:  # a class of its own, and others for kinds of numbers that torch lacks
        raise unreadable(file, f"it is cut or damaged ({printable(error)[:200]})") from error
    if any(value.is_complex() for value in tensors.values()):
        raise unreadable(file, "it holds a tensor of a kind that is not read (complex)")
    return tensors, {"safetensors": dict(metadata or {})}


def _of_index(index: Path) -> Unwrapped:
    weight_map = _json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise unreadable(index, "it must have a weight_map from names to files, and has none")
    for part in weight_map.values():
        if not isinstance(part, str) or not _is_plain_name(part):
            raise unreadable(index, f"its weight_map must name files beside it, got {ascii(part)[:200]}")
    parts = sorted(set(weight_map.values()))
    missing = [part for part in parts if not (index.parent / part).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{index} names {listed(missing)}, which must be beside it; fetch all {len(parts)} parts."
        )
    contents = {part: _part(index.parent / part) for part in parts}
    absent = [printable(f"{name} in {part}")[:200] for name, part in weight_map.items() if name not in contents[part]]
    if absent:
        raise unreadable(index, f"its parts lack what it names: {listed(absent)}")
    try:
        found = unwrapped({name: contents[part][name] for name, part in weight_map.items()})
    except ValueError as error:
        raise unreadable(index, str(error)) from error
    spare = sorted({name for tensors in contents.values() for name in tensors} - set(weight_map))
    notes = (f"{len(spare)} tensors that the index does not name were left out: {printable(listed(spare))}",)
    return Unwrapped(found.tensors, found.facts, found.notes + notes * bool(spare))


def _part(file: Path) -> dict[str, Tensor]:
    check_file(file)
    tree = _of_safetensors(file)[0] if _is_safetensors(file) else load_pickled(file)
    if not isinstance(tree, dict):
        raise unreadable(file, "it must hold named tensors")
    return {name: value for name, value in tree.items() if isinstance(value, Tensor)}


def _is_plain_name(name: str) -> bool:
    is_name = name not in ("", ".", "..") and PurePosixPath(name).name == name == PureWindowsPath(name).name
    return is_name and name.isprintable() and len(name.encode()) <= _LONGEST_NAME


def _json(file: Path) -> dict[str, Any]:
    check_file(file)
    try:
        read = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{file} must be a file of JSON, got one that cannot be read ({error}); fetch it again."
        ) from error
    if not isinstance(read, dict):
        raise ValueError(f"{file} must hold an object of JSON, got {type(read).__name__}; fetch it again.")
    return read
