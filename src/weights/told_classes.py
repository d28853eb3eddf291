"""What the outputs of published weights stand for, where their file says so."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from src.classes import ClassList, distinct_colours
from src.weights.class_names import same_names

_PLACEHOLDER = "LABEL_"


def told_classes(facts: Mapping[str, Any], num_classes: int) -> ClassList | None:
    """The classes that a file names for its outputs; ADE20K's come with their synonyms.

    Where a name stands twice, neither class is called by it alone.

    Args:
        facts: plain values of the file.
        num_classes: number of its outputs; a list of another length says nothing about them.
    """
    for names, palette in _lists(facts):
        if isinstance(names, ClassList):
            return names
        if len(names) == num_classes:
            ade20k = ClassList.ade20k()
            if num_classes == len(ade20k) and same_names(names, ade20k):
                return ade20k
            return _class_list(names, palette)
    return None


def _lists(facts: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    for section in (facts.get("segmentation"), facts.get("config")):
        if isinstance(section, Mapping) and isinstance(section.get("classes"), Mapping):
            yield _own(section["classes"]), None
    meta = facts.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    for place in (meta.get("dataset_meta"), meta):
        if isinstance(place, Mapping):
            names = place.get("classes", place.get("CLASSES"))
            if isinstance(names, Sequence) and all(isinstance(name, str) for name in names):
                yield _tidy(names), place.get("palette", place.get("PALETTE"))
    config = facts.get("config")
    labels = config.get("id2label") if isinstance(config, Mapping) else None
    if isinstance(labels, Mapping) and labels:
        try:
            names = [str(labels[key]) for key in sorted(labels, key=int)]
        except (TypeError, ValueError):
            return
        if not all(name.startswith(_PLACEHOLDER) for name in names):
            yield _tidy(names), None


def _own(values: Mapping[str, Any]) -> Any:
    try:
        return ClassList.from_dict(values)
    except (KeyError, TypeError, ValueError):
        return ()


def _tidy(names: Sequence[str]) -> list[str]:
    return [" ".join(name.split()) for name in names]


def _class_list(names: Sequence[str], palette: Any) -> ClassList:
    doubled = [names.count(name) > 1 for name in names]
    own = tuple(f"{name} (output {place})" if doubled[place] else name for place, name in enumerate(names))
    synonyms = tuple((name,) if doubled[place] else () for place, name in enumerate(names))
    try:
        colours = tuple((int(red), int(green), int(blue)) for red, green, blue in palette)
        return ClassList(own, colours, synonyms=synonyms)
    except (TypeError, ValueError):
        return ClassList(own, tuple(distinct_colours(len(own))), synonyms=synonyms)
