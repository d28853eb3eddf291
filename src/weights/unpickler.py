"""Reading pickles of ``torch.save`` without running anything that is in them.

What a pickle calls by name is never imported: each name that is known here stands for a few lines of this file, names
of harmless carriers for an object that takes every treatment and does nothing, and any other name ends the reading. So
nothing that a pickle can get hold of is real but numbers, texts and containers.
"""

import pickle
import pickletools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import torch

from src.download.address import printable
from src.weights.stored import (
    Entries,
    ForeignError,
    Inert,
    Known,
    Storage,
    StoredArray,
    StoredDtype,
    StoredTensor,
    array_of_bytes,
    is_count,
    scalar,
)

_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "UntypedStorage": torch.uint8,
}
_DTYPES_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in _STORAGES.values()} | {
    name: getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64")
}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg", "numpy._core": "numpy.core"}
_CARRIERS = re.compile(
    r"(mmengine|mmcv|mmseg|mmdet|mmcls|mmpretrain|omegaconf|yacs|easydict|addict|fvcore|ml_collections"
    r"|lightning|lightning_fabric|pytorch_lightning|detectron2\.config|typing|pathlib|datetime|argparse|numpy\.random)\..+"
    r"|builtins\.(getattr|object|type|slice|range|xrange|complex|int|long|float|bool|str|unicode|bytes|NoneType)"
    r"|types\.SimpleNamespace|collections\.deque|torch\.(device|layout|memory_format|strided)"
)
_SPECIAL = re.compile(
    r"torch\._utils\._rebuild_\w+|torch(\.storage)?\.Q\w+Storage|torch(\.storage)?\.Complex\w+Storage"
)
_WHOLE_MODEL = re.compile(r"torch\.nn\.modules\..+|torch\.nn\.parallel\..+")
_EXTENSIONS = ("EXT1", "EXT2", "EXT4")
_MEMORY = ("PUT", "BINPUT", "LONG_BINPUT")


class Unpickler(pickle.Unpickler):
    """Reads one pickle.

    Args:
        file: where it begins.
        storages: takes the memory that the pickle names, by key.
    """

    def __init__(self, file: BinaryIO, storages: dict[str, Storage]) -> None:
        _check_codes(file)
        super().__init__(file, encoding="latin1")  # the bytes of numpy's numbers in files of Python 2
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name.

        Args:
            module: its module, which is not imported.
            name: its name there.

        Raises:
            ForeignError: the name is not known.
        """
        for old, new in _OLD_MODULES.items():
            module = new + module.removeprefix(old) if module == old or module.startswith(f"{old}.") else module
        whole = f"{module}.{name}"
        if whole in _KNOWN:
            return Known(_KNOWN[whole])
        if module in ("torch", "torch.storage", "torch.cuda") and name in _STORAGES:
            return _STORAGES[name]
        if module == "torch" and name in _DTYPES_BY_NAME:
            return _DTYPES_BY_NAME[name]
        if _CARRIERS.fullmatch(whole):
            return Inert
        raise ForeignError(_refusal(printable(whole)[:200]))

    def persistent_load(self, pid: Any) -> Storage:
        """The memory that a pickle names.

        Args:
            pid: the word for memory, its type, its key, its device, how many elements it has, and in old files which
                part is meant.

        Raises:
            ForeignError: it names anything else.
        """
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] not in ("storage", b"storage"):
            raise ForeignError("it is damaged, or refers to what lies outside it")
        kind, key, _, count = pid[1:5]
        if not isinstance(kind, torch.dtype) or not is_count(count):
            raise ForeignError("it is damaged")
        storage = self._storages.setdefault(str(key), Storage(str(key), kind, count))
        if (storage.dtype, storage.count) != (kind, count):
            raise ForeignError("it is damaged: it names memory in two ways")
        part = pid[5] if len(pid) == 6 else None
        if part is None:
            return storage
        _, start, length = part
        if not is_count(start) or not is_count(length) or start + length > count:
            raise ForeignError("it is damaged: a tensor reaches beyond its memory")
        return Storage(storage.key, storage.dtype, length, start)


def _check_codes(file: BinaryIO) -> None:
    """Looks through a pickle before it is read: every code whole, no extension, no memory taken for nothing."""
    start = file.tell()
    for number, (code, argument, _) in enumerate(pickletools.genops(file)):
        if code.name in _EXTENSIONS:
            raise ForeignError(f"it holds an object of extension {argument}, and nothing that could run code is loaded")
        if code.name in _MEMORY and int(argument or 0) > number:
            raise ForeignError("it is damaged")
    file.seek(start)


def _refusal(whole: str) -> str:
    if _WHOLE_MODEL.fullmatch(whole):
        return f"it holds a whole model ({whole}), not its weights alone; save model.state_dict() in its place"
    if _SPECIAL.fullmatch(whole):
        return f"it holds a tensor of a kind that is not read ({whole}: sparse, quantised, complex or of a class)"
    return f"it holds an object of {whole}, and nothing that could run code is loaded"


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> StoredTensor:
    if len(rest) > 2 and rest[2]:
        raise ForeignError("it holds a tensor of a kind that is not read (with marks of a complex one)")
    return StoredTensor(storage, offset, size, stride)


def _tensor_of_bytes(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, *rest: Any
) -> StoredTensor:
    if not isinstance(dtype, torch.dtype):
        raise ForeignError("it is damaged")
    return StoredTensor(storage, offset, size, stride, dtype)


def _tensor_with_attributes(make: Any, kind: Any, args: Any, *rest: Any) -> StoredTensor:
    tensor = make(*args) if isinstance(make, Known) else None
    if not isinstance(tensor, StoredTensor):
        raise ForeignError("it holds a tensor of a kind that is not read")
    return tensor


def _first(value: Any = None, *rest: Any) -> Any:
    return value


def _encoded(text: Any, coding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"):
        raise ForeignError("it is damaged")
    return text.encode("latin1")


def _bytes(content: Any = b"", coding: Any = "latin1") -> bytes:
    return bytes(content) if isinstance(content, bytes | bytearray | list) else _encoded(content, coding)


def _entries(*args: Mapping | Iterable) -> Entries:
    return Entries(*args)


_KNOWN: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_bytes,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._tensor._rebuild_from_type_v2": _tensor_with_attributes,
    "torch.nn.parameter.Parameter": _first,
    "torch.Tensor": Inert,
    "torch._tensor.Tensor": Inert,
    "torch.Size": tuple,
    "collections.OrderedDict": _entries,
    "collections.Counter": _entries,
    "collections.defaultdict": lambda *args: Entries(),
    "builtins.dict": _entries,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": _bytes,
    "_codecs.encode": _encoded,
    "copyreg._reconstructor": Inert,
    "numpy.dtype": StoredDtype,
    "numpy.ndarray": StoredArray,
    "numpy.core.multiarray._reconstruct": StoredArray,
    "numpy.core.multiarray.scalar": scalar,
    "numpy.core.numeric._frombuffer": array_of_bytes,
}
