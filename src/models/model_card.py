"""The page that a model shows on the Hugging Face Hub: what it is and how to load it, and no more than was given."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from src.classes import ClassList
from src.models.compiled import uncompiled
from src.models.section import LIBRARY
from src.preprocessing import Preprocessing


def model_card(
    model: Any,
    source: str,
    classes: ClassList | None = None,
    preprocessing: Preprocessing | None = None,
    scores: Mapping[str, float | None] | None = None,
    licence: str | None = None,
) -> str:
    """The page in Markdown.

    Args:
        model: the segmenter.
        source: what its ``from_pretrained`` takes.
        classes: names of its outputs.
        preprocessing: how images become inputs.
        scores: what it reached, by name, None where that is no number; ``iou/<class>`` is that of a class.
        licence: the licence of the weights, as the Hub names it.
    """
    parts = [type(part).__name__ for part in (uncompiled(model.encoder), uncompiled(model.decoder))]
    head: dict[str, Any] = {
        "library_name": LIBRARY,
        "pipeline_tag": "image-segmentation",
        "tags": ["semantic-segmentation", *parts],
    }
    if licence:
        head["license"] = licence
    count = sum(value.numel() for value in model.parameters())
    lines = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {_plain(source.removeprefix('hf:'))}",
        f"Semantic segmentation: {parts[0]} with {parts[1]}, {model.num_classes} classes, {count:,} parameters.",
        f"With {LIBRARY} installed:",
        f"```python\nfrom {_room(model)} import {type(model).__name__}\n"
        f"model = {type(model).__name__}.from_pretrained({source!r})\n```",
    ]
    if preprocessing is not None:
        lines.append(_inputs(preprocessing))
    named = dict(scores or {})
    if classes is not None:
        ious = [_taken(named, name) for name in classes.names]
        columns = [[str(place) for place in range(len(classes))], [_plain(name) for name in classes.names]]
        if any(iou is not None for iou in ious):
            columns.append([_shown(iou) for iou in ious])
        rows = list(zip(*columns, strict=True))
        lines.append(f"## Classes\n\n{_table(('', 'class', 'IoU')[: len(columns)], rows)}")
    if named:
        rows = [(_plain(name), _shown(value)) for name, value in named.items()]
        lines.append(f"## Scores\n\n{_table(('score', 'value'), rows)}")
    return "\n\n".join(lines) + "\n"


def _room(model: Any) -> str:
    module = type(model).__module__
    return "src.models" if module.startswith("src.models.") else module


def _inputs(preprocessing: Preprocessing) -> str:
    resize = "keep their size" if preprocessing.resize is None else f"are resized to fit {preprocessing.resize} pixels"
    mean, std = (", ".join(f"{value:g}" for value in values) for values in (preprocessing.mean, preprocessing.std))
    return f"Images {resize}; their values, 0..255, are less a mean of ({mean}) and divided by ({std})."


def _taken(scores: dict[str, float | None], class_name: str) -> float | None:
    """A class's IoU, which is then no longer among the scores."""
    for name in scores:
        if name == f"iou/{class_name}" or name.endswith(f"/iou/{class_name}"):
            return scores.pop(name)
    return None


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", text)
