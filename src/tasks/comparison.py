"""Whether a model fits its classes and images, and where two class lists or two nested settings differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from src.classes import ClassList
from src.models import Segmenter
from src.preprocessing import Preprocessing


def check_fits(model: Segmenter, classes: ClassList, preprocessing: Preprocessing) -> None:
    """Sees that a model has an output for each class and an input for each channel.

    Args:
        model: the network.
        classes: the classes.
        preprocessing: how images become inputs.

    Raises:
        ValueError: it has another number of outputs or inputs.
    """
    if len(classes) != model.num_classes:
        raise ValueError(
            f"model.classes must name each of the model's {model.num_classes} outputs, got {len(classes)} names; set "
            f"model.model.num_classes to {len(classes)} or correct the class list."
        )
    channels = getattr(model.encoder, "in_channels", preprocessing.channels)
    if channels != preprocessing.channels:
        raise ValueError(
            f"data.preprocessing.mean and std must have one number for each of the model's {channels} input channels, "
            f"got {preprocessing.channels}; set model.model.encoder.in_channels to the channels of the images, and "
            f"mean and std to theirs."
        )


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
