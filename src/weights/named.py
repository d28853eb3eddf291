"""Published weights by a name of their own: where they are, what they are, and what was published about them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

NAMED_FILE = Path(__file__).with_name("named_weights.csv")

_WHOLE = ("image_size", "window")


@dataclass(frozen=True)
class NamedWeights:
    """One line of the table; what its publisher does not tell is None or empty.

    Args:
        name: the name.
        source: what ``load_weights`` takes, an address or ``hf:owner/name``.
        layout: the layout of the names in the file.
        window: height and width of a window, in tokens, where the map is not smaller.
        image_size: height and width of the images in training, in pixels.
        trained_on: the data sets, in the order of training.
        metric: ``top1``, accuracy on ImageNet-1K, or ``miou``, mean IoU on ADE20K at a single scale.
        score: the published score, in percent.
        licence: the licence of the weights.
        seen: where all this is published.
    """

    name: str
    source: str
    layout: str
    window: int | None
    image_size: int | None
    trained_on: tuple[str, ...]
    metric: str
    score: float | None
    licence: str
    seen: str


def _read(line: Mapping[str, str]) -> NamedWeights:
    values: dict[str, object] = dict(line)
    values |= {key: int(line[key]) if line[key] else None for key in _WHOLE}
    values["score"] = float(line["score"]) if line["score"] else None
    values["trained_on"] = tuple(line["trained_on"].split())
    return NamedWeights(**values)  # type: ignore[arg-type]


def _read_all() -> Mapping[str, NamedWeights]:
    with NAMED_FILE.open(encoding="utf-8", newline="") as file:
        return MappingProxyType({line["name"]: _read(line) for line in csv.DictReader(file)})


NAMED = _read_all()
"""All named weights by name, in the order of the file."""


def find_named(name: str) -> NamedWeights | None:
    """The named weights of that name; None where there are none.

    Args:
        name: the name, for example ``swin_tiny_imagenet1k``.
    """
    return NAMED.get(name)


def table_lines() -> list[str]:
    """The names with what they stand for, as lines of text of at most 120 characters."""
    cells: list[tuple[str, ...]] = [("name", "layout", "window", "pixels", "trained on", "score, %", "licence")]
    for one in NAMED.values():
        score = "" if one.score is None else f"{one.metric} {one.score:g}"
        numbers = ("" if number is None else str(number) for number in (one.window, one.image_size))
        cells.append((one.name, one.layout, *numbers, ", ".join(one.trained_on), score, one.licence))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return [line.rstrip() for line in lines]
