"""Reading pickles of ``torch.save`` without running anything that is in them.

Each code of a pickle is carried out here, on lists, dictionaries, texts and numbers alone. What it calls by name is
never imported: see ``standing_for``. Nothing is hashed but texts and numbers, and what is copied again and again is
counted, so a file takes no more memory and time than its size asks for.
"""

import pickletools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import torch

from src.weights.pickle_names import entries, is_key, members, standing_for
from src.weights.stored import ForeignError, Inert, Known, Storage, StoredArray, StoredDtype, StoredTensor, is_count

_FREE = 16 << 20
_BYTES_OF_A_PLACE = 8


class Unpickler:
    """Reads one pickle.

    Args:
        file: where it begins.
        storages: takes the memory that the pickle names, by key.
    """

    def __init__(self, file: BinaryIO, storages: dict[str, Storage]) -> None:
        self._file, self._storages = file, storages
        self._start = file.tell()
        self._copied = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """What the pickle holds; the file stands behind it then.

        Raises:
            ForeignError: it is damaged, or holds what is not known.
        """
        for code, argument, _ in pickletools.genops(self._file):
            if code.name in _VALUES:
                self._stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
            elif code.name in _STEPS:
                _STEPS[code.name](self, argument)
            elif code.name not in _WITHOUT_EFFECT:
                raise ForeignError("it is damaged, or refers to what lies outside it")
        return self._stack.pop()

    def _taken(self, count: int) -> list[Any]:
        """The last values, taken from the stack."""
        if not 0 <= count <= len(self._stack):
            raise ForeignError("it is damaged")
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return taken

    def _since_mark(self) -> list[Any]:
        return self._taken(len(self._stack) - self._marks.pop())

    def _mark(self, argument: Any) -> None:
        self._marks.append(len(self._stack))

    def _drop(self, argument: Any) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _put(self, argument: Any) -> None:
        self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]

    def _get(self, argument: Any) -> None:
        self._stack.append(self._memo[argument])

    def _make(self, kind: Callable[[list[Any]], Any], values: list[Any]) -> None:
        self._stack.append(kind(values))

    def _append(self, values: list[Any]) -> None:
        if type(target := self._target()) is list:
            target.extend(values)

    def _set(self, values: list[Any]) -> None:
        if type(target := self._target()) is dict:
            target.update(entries(_pairs(values)))

    def _add(self, values: list[Any]) -> None:
        if type(target := self._target()) is set:
            target.update(members(values))

    def _build(self, argument: Any) -> None:
        state = self._stack.pop()
        target = self._target()
        if isinstance(target, StoredArray | StoredDtype):
            self._charge(state)
            target.tell(state)

    def _target(self) -> Any:
        """What is filled: a container, or an object that takes no trace."""
        target = self._stack[-1]
        if not isinstance(target, list | dict | set | Inert | StoredArray | StoredDtype | StoredTensor):
            raise ForeignError("it is damaged")
        return target

    def _name(self, argument: str | None) -> Any:
        """What stands for the name in an argument, or else for the one on the stack."""
        module, name = self._taken(2) if argument is None else argument.split(" ", 1)
        if not isinstance(module, str) or not isinstance(name, str):
            raise ForeignError("it is damaged")
        return standing_for(module, name)

    def _object(self, argument: Any) -> None:
        what, *args = self._since_mark()
        self._call(what, args)

    def _call(self, what: Any, args: Sequence[Any]) -> None:
        if not isinstance(args, tuple | list) or not isinstance(what, Known | Inert):
            raise ForeignError("it is damaged")
        self._charge(args)
        self._stack.append(what(*args))

    def _charge(self, values: Sequence[Any]) -> None:
        """Counts what is about to be copied: in all not much more than the pickle has bytes."""
        self._count(values)
        for value in values:
            self._count(value)

    def _count(self, value: Any) -> None:
        if isinstance(value, str | bytes):
            self._copied += len(value)
        elif isinstance(value, list | tuple | dict | set):
            self._copied += _BYTES_OF_A_PLACE * len(value)
        if self._copied > _FREE + self._file.tell() - self._start:
            raise ForeignError("it asks for more memory than it fills")

    def _memory(self, pid: Any) -> Storage:
        """The memory that a pickle names: a word, its type, its key, its device, how many elements it has, and in old
        files which part is meant.
        """
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] not in ("storage", b"storage"):
            raise ForeignError("it is damaged, or refers to what lies outside it")
        kind, key, _, count = pid[1:5]
        if not isinstance(kind, torch.dtype) or not is_count(count) or type(key) not in (str, int) or not is_key(key):
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


def _pairs(values: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(values[::2], values[1::2], strict=True)


def _refused(reader: Unpickler, argument: Any) -> None:
    raise ForeignError(f"it holds an object of extension {argument}, and nothing that could run code is loaded")


_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_WITHOUT_EFFECT = frozenset(("PROTO", "FRAME", "STOP"))
_STEPS: dict[str, Callable[[Unpickler, Any], None]] = {
    "MARK": Unpickler._mark,
    "POP": Unpickler._drop,
    "POP_MARK": lambda reader, _: reader._since_mark().clear(),
    "DUP": lambda reader, _: reader._stack.append(reader._stack[-1]),
    "NONE": lambda reader, _: reader._stack.append(None),
    "NEWTRUE": lambda reader, _: reader._stack.append(True),
    "NEWFALSE": lambda reader, _: reader._stack.append(False),
    "EMPTY_LIST": lambda reader, _: reader._stack.append([]),
    "EMPTY_DICT": lambda reader, _: reader._stack.append({}),
    "EMPTY_SET": lambda reader, _: reader._stack.append(set()),
    "EMPTY_TUPLE": lambda reader, _: reader._stack.append(()),
    "LIST": lambda reader, _: reader._make(list, reader._since_mark()),
    "TUPLE": lambda reader, _: reader._make(tuple, reader._since_mark()),
    "FROZENSET": lambda reader, _: reader._make(members, reader._since_mark()),
    "DICT": lambda reader, _: reader._make(lambda values: entries(_pairs(values)), reader._since_mark()),
    "TUPLE1": lambda reader, _: reader._make(tuple, reader._taken(1)),
    "TUPLE2": lambda reader, _: reader._make(tuple, reader._taken(2)),
    "TUPLE3": lambda reader, _: reader._make(tuple, reader._taken(3)),
    "APPEND": lambda reader, _: reader._append(reader._taken(1)),
    "APPENDS": lambda reader, _: reader._append(reader._since_mark()),
    "SETITEM": lambda reader, _: reader._set(reader._taken(2)),
    "SETITEMS": lambda reader, _: reader._set(reader._since_mark()),
    "ADDITEMS": lambda reader, _: reader._add(reader._since_mark()),
    "BUILD": Unpickler._build,
    "MEMOIZE": Unpickler._put,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Unpickler._put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Unpickler._get),
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), lambda reader, argument: reader._stack.append(reader._name(argument))),
    "INST": lambda reader, argument: reader._call(reader._name(argument), reader._since_mark()),
    "OBJ": Unpickler._object,
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda reader, _: reader._call(*reader._taken(2))),
    "NEWOBJ_EX": lambda reader, _: reader._call(*reader._taken(3)[:2]),
    "BINPERSID": lambda reader, _: reader._stack.append(reader._memory(reader._stack.pop())),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _refused),
}
