"""What this toolkit writes beside the weights of a model of its own."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from src.layers.size import Size
from src.models.section import SECTION

SWIN = "swin"
"""The key under which the windows stand where a file holds weights alone."""


def own_section(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What this toolkit wrote about a model of its own, empty for weights of others.

    Args:
        facts: plain values of a file.
    """
    for section in (facts.get(SECTION), facts.get("config")):
        if isinstance(section, Mapping) and isinstance(section.get("model"), Mapping) and "format_version" in section:
            return section
    return {}


def own_arguments(facts: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """The arguments that a part of a model of this toolkit was built with, empty for weights of others.

    Args:
        facts: plain values of a file.
        part: ``encoder``, ``decoder`` or ``auxiliary``.
    """
    value: Any = own_section(facts).get("model")
    for key in ("init_args", part, "init_args"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def window_facts(windows: Sequence[Size], pretrained: Sequence[Size | None]) -> dict[str, Any]:
    """The windows of a Swin in plain types, for files of weights alone.

    Args:
        windows: height and width of each stage's windows, in tokens.
        pretrained: for Swin V2, the windows whose reach normalises each stage's coordinates, None where its own.
    """
    known = [None if window is None else list(window) for window in pretrained]
    return {"windows": [list(window) for window in windows], "pretrained_windows": known}


def told_window_facts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``window_facts`` gave, pickled or in the metadata of a safetensors file; else empty.

    Args:
        facts: plain values of a file.
    """
    told = facts.get(SWIN)
    metadata = facts.get("safetensors")
    if told is None and isinstance(metadata, Mapping):
        try:
            told = json.loads(str(metadata.get(SWIN)))
        except (ValueError, RecursionError):
            told = None
    return told if isinstance(told, Mapping) else {}
