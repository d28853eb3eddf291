"""What stands for the names that a pickle calls: a few lines of this file, an object that does nothing, or an error."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from src.download.address import printable
from src.weights.stored import (
    ForeignError,
    Inert,
    Known,
    StoredArray,
    StoredDtype,
    StoredTensor,
    array_of_bytes,
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
_LONGEST_KEY = 10_000


def standing_for(module: str, name: str) -> Any:
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
        return Inert()
    raise ForeignError(_refusal(printable(whole[:200])))


def is_key(value: Any) -> bool:
    """Whether a value may be a key: a text or a number, none of which can be made to collide or to be hashed for long.

    Args:
        value: what a pickle puts into a dictionary or set.

    Raises:
        ForeignError: it is a text without end.
    """
    if type(value) in (str, bytes) and len(value) > _LONGEST_KEY:
        raise ForeignError(f"it holds a name of more than {_LONGEST_KEY} characters")
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 64
    return type(value) in (str, bytes, float, bool, type(None))


def entries(pairs: Mapping | Iterable = ()) -> dict[Any, Any]:
    """A dictionary of the pairs whose keys are texts or numbers.

    Args:
        pairs: a dictionary, or keys and values.
    """
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return {key: value for key, value in items if is_key(key)}


def members(values: Iterable = ()) -> set[Any]:
    """A set of the values that are texts or numbers.

    Args:
        values: what to take from.
    """
    return {value for value in values if is_key(value)}


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


def _nothing(*args: Any) -> Inert:
    return Inert()


def _encoded(text: Any, coding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"):
        raise ForeignError("it is damaged")
    return text.encode("latin1")


def _bytes(content: Any = b"", coding: Any = "latin1") -> bytes:
    return bytes(content) if isinstance(content, bytes | list) else _encoded(content, coding)


_KNOWN: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_bytes,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._tensor._rebuild_from_type_v2": _tensor_with_attributes,
    "torch.nn.parameter.Parameter": _first,
    "torch.Tensor": _nothing,
    "torch._tensor.Tensor": _nothing,
    "torch.Size": tuple,
    "collections.OrderedDict": entries,
    "collections.Counter": entries,
    "collections.defaultdict": lambda *args: {},
    "builtins.dict": entries,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.set": members,
    "builtins.frozenset": members,
    "builtins.bytearray": _bytes,
    "_codecs.encode": _encoded,
    "copyreg._reconstructor": _nothing,
    "numpy.dtype": StoredDtype,
    "numpy.ndarray": StoredArray,
    "numpy.core.multiarray._reconstruct": StoredArray,
    "numpy.core.multiarray.scalar": scalar,
    "numpy.core.numeric._frombuffer": array_of_bytes,
}
