"""Measurements as tables for a terminal, as Markdown and as a file."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from src.files import written_beside
from src.measurement.comparison import LEAST_SAME, tolerance
from src.measurement.limits import Verdict
from src.measurement.options import ROWS

Line = tuple[str, ...]
HEAD: Line = ("", "who", "median", "smallest .. largest", "ratio", "smallest .. largest")


def count_lines(counts: Mapping[str, int | None]) -> list[Line]:
    """Counts in words: parameters in millions, multiply-adds in billions.

    Args:
        counts: what ``counts`` gave.
    """
    lines: list[Line] = []
    for name, number in counts.items():
        per, unit = (1e9, "G") if name.startswith("multiply") else (1e6, "M")
        lines.append((name, "not known for this model" if number is None else f"{number / per:.4g} {unit}"))
    return lines


def difference_lines(result: Mapping[str, Any]) -> list[Line]:
    """How far ours is from peers of the same function.

    Args:
        result: what ``measure`` gave.
    """
    lines: list[Line] = []
    for row, name, peer, told in _differences(result):
        value = f"{told['value']:.2e}" if told["kind"] == "relative difference" else f"{100 * told['value']:.4f} %"
        lines.append((ROWS[row], name, peer, f"{told['kind']} {value}"))
    return lines


def differing(result: Mapping[str, Any]) -> list[str]:
    """What differs from a peer by more than rounding explains, a sentence each.

    Args:
        result: what ``measure`` gave.
    """
    precision = result["options"]["precision"]
    labels = [
        f"{name} and {peer} give the same labels in {ROWS[row]} on {100 * told['value']:.2f} % of pixels, less than "
        f"{100 * LEAST_SAME[precision]:.0f} %"
        for row, name, peer, told in _differences(result)
        if told["kind"] == "same labels" and not told["value"] >= LEAST_SAME[precision]
    ]
    return labels + [
        f"{name} and {peer} differ in {ROWS[row]} by {told['value']:.2e} of the largest number, more than "
        f"{tolerance(name, precision):.0e}"
        for row, name, peer, told in _differences(result)
        if told["kind"] == "relative difference" and not told["value"] <= tolerance(name, precision)
    ]


def _differences(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for row, by_name in result["differences"].items():
        for name, by_peer in by_name.items():
            for peer, told in by_peer.items():
                yield row, name, peer, told


def row_lines(result: Mapping[str, Any]) -> list[Line]:
    """Every figure of every row; ratios stand with the peer, once for each of ours.

    Args:
        result: what ``measure`` gave.
    """
    lines: list[Line] = []
    for name, row in result["rows"].items():
        lines += _lines(_title(name, row), row, row["unit"])
        if row.get("live", {}).get("figures"):
            lines += _lines(f"{_title(name, row)}, tensors alone", row["live"], row["unit"])
    return lines


def _title(name: str, row: Mapping[str, Any]) -> str:
    return f"{ROWS[name]}, {row['batch']} x {row['size'][0]}x{row['size'][1]}"


def _lines(title: str, row: Mapping[str, Any], unit: str) -> Iterator[Line]:
    for who, figure in row["figures"].items():
        ratios = {ours: others[who] for ours, others in row["ratios"].items() if who in others}
        words = [f"{ratio['median']:.2f}{_of(ours, ratios)}" for ours, ratio in ratios.items()]
        ranges = [_range(ratio, "") for ratio in ratios.values()]
        yield title, who, _figure(figure["median"], unit), _range(figure, unit), "\n".join(words), "\n".join(ranges)
        title = ""


def _of(ours: str, ratios: Mapping[str, Any]) -> str:
    return f" ({ours.partition(', ')[2]})" if len(ratios) > 1 else ""


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if unit == "MiB" else f"{1000 * value:,.1f} ms"


def _range(figure: Mapping[str, Any], unit: str) -> str:
    if "min" not in figure:
        return ""
    ends = (figure["min"], figure["max"])
    return " .. ".join(_figure(end, unit) if unit else f"{end:.2f}" for end in ends)


def verdict_lines(told: Sequence[Verdict]) -> list[Line]:
    """Limits, goals and what was measured.

    Args:
        told: what the limits say.
    """
    lines: list[Line] = []
    for verdict in told:
        limit, values = verdict.limit, verdict.to_dict()
        sign = "at least" if limit.at_least else "at most"
        measured = "" if verdict.ratio is None else f"{verdict.ratio:.2f}"
        what = f"{ROWS[limit.row]}, {limit.model}"
        lines.append((what, limit.ours, measured, f"{sign} {limit.limit:g}", f"{limit.goal:g}", values["verdict"]))
    return lines


VERDICT_HEAD: Line = ("limit", "who", "measured", "limit", "goal", "")
DIFFERENCE_HEAD: Line = ("outputs", "ours", "theirs", "")
COUNT_HEAD: Line = ("counts", "")


def rich_table(head: Line, lines: Sequence[Line], title: str = "") -> Table:
    """A table for a terminal.

    Args:
        head: names of the columns.
        lines: cells, as many a line as the head has.
        title: what stands above.
    """
    table = Table(title=title or None, title_justify="left")
    for index, name in enumerate(head):
        table.add_column(name, justify="left" if index < 2 else "right", overflow="fold")
    for line in lines:
        table.add_row(*line, end_section=False)
    return table


def markdown(head: Line, lines: Sequence[Line]) -> str:
    """A table in Markdown.

    Args:
        head: names of the columns.
        lines: cells, as many a line as the head has.
    """
    written = [head, tuple("---" for _ in head), *lines]
    return "\n".join(f"| {' | '.join(cell.replace(chr(10), '<br>') for cell in line)} |" for line in written)


def save(result: Mapping[str, Any], path: Path) -> None:
    """Writes measurements as JSON, beside the file first, so that nobody sees half of it.

    Args:
        result: plain types.
        path: the file.

    Raises:
        ValueError: it cannot be written.
    """
    try:
        with written_beside(path) as beside:
            beside.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise ValueError(
            f"--json must be a file that can be written, got {path} ({error.strerror}); give another path."
        ) from error


def check_writable(path: Path) -> None:
    """Raises where a file cannot be written, before anything is measured; makes its folder.

    Args:
        path: the file.

    Raises:
        ValueError: it is a folder, or its folder cannot be made or written into.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            usable = not path.is_dir()
    except OSError:
        usable = False
    if not usable:
        raise ValueError(
            f"--json must be a file that can be written, got {path}; give a file in a folder that is yours."
        )
