"""The command line of the benchmark."""

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from src.measurement import limits, tables
from src.measurement.inputs import draw
from src.measurement.machine import machine
from src.measurement.measure import measure
from src.measurement.options import ROWS, Options, add_arguments, num_cores, options_of
from src.measurement.ours import build_model
from src.measurement.peers import build
from src.measurement.profiling import profiled, share_lines

_EXAMPLES = """examples:
  python -m src.benchmark
  python -m src.benchmark --only label_map --numerics both --against transformers,smp --json label_map.json
  python -m src.benchmark --config ade20k.yaml --config model/base.yaml --only logits,label_map
  python -m src.benchmark --against none --profile
  python -m src.benchmark --check
"""
_WIDTH = 140
"""Characters of a line where a table goes into a file."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and saves; gives the status of the process.

    Args:
        arguments: the words of the command line; None for those of this process.

    Raises:
        FileNotFoundError: there is no such config.
        ValueError: what is asked cannot be measured.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    told = parser().parse_args(words)
    console, errors = _console(), Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        errors.print(text, style="dim")

    if told.check:
        _check_alone(told)
    if told.profile and told.only not in (tuple(ROWS), ("label_map",), ("training",)):
        raise ValueError(
            f"--profile must go with --only label_map or --only training, got {','.join(told.only)}; give one of these."
        )
    if told.profile and told.compile:
        raise ValueError(
            "--profile must go without --compile, which hides the parts of a model; leave one of them out."
        )
    if told.json is not None:
        tables.check_writable(told.json)
    options, notes = options_of(told)
    for note in notes:
        errors.print(f"note: {note}")
    started = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python -m src.benchmark", *words]),
        "machine": machine(),
    }
    console.print(head_line(started, options), highlight=False)
    if told.check:
        result, status = _checked(options, console, say)
    elif told.profile:
        result, status = _profiled(options, console, say), 0
    else:
        result, status = measure(options, say), 0
        print_result(result, console)
    if told.json is not None:
        tables.save(started | result, told.json)
    return status


def _check_alone(told: argparse.Namespace) -> None:
    """What ``--check`` measures is fixed, but for threads and rounds."""
    usual = vars(parser().parse_args([]))
    free = ("check", "threads", "rounds", "json")
    if others := [name for name, value in vars(told).items() if name not in free and value != usual[name]]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise ValueError(
            f"--check must stand without {flags}, got both; it takes --threads, --rounds and --json alone."
        )


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    made = argparse.ArgumentParser(
        prog="python -m src.benchmark",
        description="Measure counts, time and memory of this toolkit's models and of other libraries' in one run. Each "
        "library is measured twice, as its users run it and tuned, in turn with ours; ratios are taken round by round.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(made)
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there as JSON")
    made.add_argument("--profile", action="store_true", help="tell where the time of our label map goes, or of our "
        "training step where --only says training")  # fmt: skip
    made.add_argument("--check", action="store_true", help="measure every ratio that may not get worse; status 1 where "
        "one is missed")  # fmt: skip
    return made


def head_line(started: dict[str, Any], options: Options) -> str:
    """The machine and the settings, in a line.

    Args:
        started: date, command and machine.
        options: what is measured.
    """
    place, threads = started["machine"], options.threads or num_cores()
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    where = place["gpu"] if options.device == "cuda" else place["processor"]
    return (
        f"{where}, {place['cores']} cores, {threads} threads, {place['memory, GiB']} GiB; {options.precision}; "
        f"{versions}"
    )


def print_result(result: dict[str, Any], console: Console) -> None:
    """Prints what was measured.

    Args:
        result: what ``measure`` gave.
        console: where to.
    """
    console.print(tables.rich_table(tables.COUNT_HEAD, tables.count_lines(result["counts"])))
    if lines := tables.difference_lines(result):
        console.print(tables.rich_table(tables.DIFFERENCE_HEAD, lines))
    if result["rows"]:
        console.print(tables.rich_table(tables.HEAD, tables.row_lines(result)))
        console.print("ratio: of times theirs over ours, above 1 ours is faster; of memory ours over theirs, below 1 "
                      "ours takes less")  # fmt: skip
    for note in [*result["notes"], *tables.differing(result)]:
        console.print(f"note: {note}", highlight=False)


def _checked(options: Options, console: Console, say: Callable[[str], None]) -> tuple[dict[str, Any], int]:
    """Every ratio that is held; the other options count for threads and rounds alone."""
    results: dict[str, Any] = {}
    for model, rows in limits.rows_by_model().items():
        asked = Options(model=model, threads=options.threads, rounds=options.rounds, rows=rows)
        needed = {limit.numerics for limit in limits.LIMITS if limit.model == model}
        say(f"{model}:")
        timed = replace(asked, rows=asked.timed_rows, numerics="fast" if needed == {"fast"} else "both")
        result = measure(timed, say)
        if asked.memory_rows:
            memories = measure(replace(asked, rows=asked.memory_rows, layout=result["options"]["layout"]), say)
            result["rows"] |= memories["rows"]
        results[model] = result
        print_result(result, console)
    verdicts = limits.verdicts(results)
    console.print(tables.rich_table(tables.VERDICT_HEAD, tables.verdict_lines(verdicts)))
    wrong = [text for result in results.values() for text in tables.differing(result)]
    held = all(verdict.holds for verdict in verdicts) and not wrong
    told = {"results": results, "verdicts": [verdict.to_dict() for verdict in verdicts]}
    return told, 0 if held else 1


def _profiled(options: Options, console: Console, say: Callable[[str], None]) -> dict[str, Any]:
    torch.set_num_threads(options.threads or num_cores())
    model = build_model(options)
    options = replace(options, num_classes=model.num_classes)
    row = "training" if options.rows == ("training",) else "label_map"
    numerics = "exact" if options.numerics == "both" else options.numerics
    ours = build(f"ours, {numerics}", options, model)
    ours.prepare(row)
    inputs = draw(options)
    say(f"{ROWS[row]}: {numerics}")
    told = profiled(lambda: ours.run(row, inputs), ours.model, options.device)
    parts, operators = share_lines(told)
    console.print(tables.rich_table(("part", "time", "share"), parts, f"{ROWS[row]}, forward, by part"))
    console.print(
        tables.rich_table(("operator", "time of its own", "share of these", "calls"), operators, "by operator")
    )
    return {"profile": told, "options": options.to_dict()}
