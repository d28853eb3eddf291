"""What a config or flag gives and the class that runs does not take."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from jsonargparse import Namespace

LINKED = ("model.classes", "model.preprocessing", "model.model.num_classes")
"""What follows from the data, whatever is said."""


def left_out(effective: Namespace, keys: Iterable[str]) -> Iterator[str]:
    """What was dropped when the class of a part was changed, a line for each class.

    Args:
        effective: the values that run.
        keys: the options that configs and flags give, as in flags without dashes.
    """
    dropped: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        if key not in LINKED and (found := _dropped(effective, key)) and found[0] not in dropped[found[1]]:
            dropped[found[1]].append(found[0])
    for class_path, names in dropped.items():
        if len(names) == 1:
            yield f"{names[0]} is not an option of {class_path} and was left out"
        else:
            yield f"{', '.join(names)} are not options of {class_path} and were left out"


def _dropped(effective: Namespace, key: str) -> tuple[str, str] | None:
    """The first part of ``key`` that a class does not take, and the class."""
    node, parts = effective, key.split(".")
    for place, part in enumerate(parts):
        class_path = node.get("class_path")
        if class_path is not None:
            if node.get("dict_kwargs"):
                return None
            node = node.get("init_args") or Namespace()
        if part not in node:
            return (".".join(parts[: place + 1]), class_path) if class_path else None
        node = node[part]
        if not isinstance(node, Namespace):
            return None
    return None
