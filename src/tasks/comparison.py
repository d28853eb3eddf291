"""Where two class lists or two nested settings differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def check_same(model: Sequence[str], data: Sequence[str], must: str, remedy: str) -> None:
    """Sees that a model and its data have the same classes in the same order.

    Args:
        model: names of the model's classes.
        data: names of the data's classes.
        must: what must be so, for the error.
        remedy: what to do otherwise.

    Raises:
        ValueError: they do not.
    """
    if tuple(model) == tuple(data):
        return
    pairs = enumerate(zip(model, data, strict=False))
    first = next((f"; class {index} is '{a}' there and '{b}' here" for index, (a, b) in pairs if a != b), "")
    raise ValueError(f"{must}: the model has {len(model)}, the data have {len(data)}{first}. {remedy}")


def differences(first: Any, second: Any, key: str = "model") -> Iterator[str]:
    """Keys below which two nested settings are not the same.

    Args:
        first: settings in plain types.
        second: other ones.
        key: how to name the whole.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in first.keys() | second.keys():
            inner = key if name == "init_args" else f"{key}.{name}"
            yield from differences(first.get(name), second.get(name), inner)
    elif first != second:
        yield key
