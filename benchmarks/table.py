"""Makes longer tables than the README's: Swin-T in all rows, label maps of S, B and L, beside three other libraries.

    python benchmarks/table.py                            all of it; its time was not measured
    python benchmarks/table.py --only tiny                Swin-T alone
    python benchmarks/table.py --only tiny --numerics both --threads 2

Every part is one run of ``python -m src.benchmark`` in a process of its own; its command stands in the result. The
results go to benchmarks/results/<date>-<machine>.json and .md. Run it from the project's folder.
"""

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from src.files import written_beside
from src.measurement import tables

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")
PARTS = {
    "tiny": ["--model", "tiny", "--against", "transformers,torchvision"],
    "others": ["--model", "tiny", "--against", "smp", "--only", "label_map,training"],
    "small": ["--model", "small", "--only", "label_map"],
    "base": ["--model", "base", "--only", "label_map"],
    "large": ["--model", "large", "--only", "label_map"],
}
NAMES = {"tiny": "Swin-T", "others": "Swin-T, another function", "small": "Swin-S", "base": "Swin-B", "large": "Swin-L"}


def main(arguments: Sequence[str] | None = None) -> int:
    told, more = parser().parse_known_args(arguments)
    measured: dict[str, Any] = {}
    failed: dict[str, str] = {}
    started = time.monotonic()
    for part in told.only:
        words = [*PARTS[part], "--numerics", told.numerics, *more]
        print(f"{part}: python -m src.benchmark {' '.join(words)}", file=sys.stderr, flush=True)
        result = one_run(words)
        if isinstance(result, str):
            failed[part] = result
            print(f"{part}: {result}", file=sys.stderr, flush=True)
        else:
            measured[part] = result
    minutes = (time.monotonic() - started) / 60
    path = told.results / f"{datetime.date.today().isoformat()}-{told.machine}"
    write(path, measured, failed, minutes)
    print(path.with_name(f"{path.name}.md"))
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Other flags are given on to src.benchmark, for example --rounds 7 or --threads 2.",
    )
    made.add_argument("--only", type=parts, default=tuple(PARTS), metavar="PARTS", help=f"of {','.join(PARTS)} (all)")
    made.add_argument("--numerics", choices=("exact", "fast", "both"), default="both", help="of ours (both)")
    made.add_argument("--machine", type=slug, default=slug(platform.machine()), help="its name in the files' names")
    made.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the files go")
    return made


def parts(text: str) -> tuple[str, ...]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"must be of {', '.join(PARTS)}, got {unknown[0]}")
    return tuple(name for name in PARTS if name in names)


def slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "machine"


def one_run(words: Sequence[str]) -> dict[str, Any] | str:
    """What one run measured, or why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "src.benchmark", *words, "--json", str(path)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode or not path.exists():
            return (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1]
        result = json.loads(path.read_text("utf-8"))
    result["command"] = " ".join(["python -m src.benchmark", *words])  # without the file that is gone
    return result


def write(path: Path, measured: dict[str, Any], failed: dict[str, str], minutes: float) -> None:
    tables.save({"parts": measured, "failed": failed, "minutes": minutes}, path.with_name(f"{path.name}.json"))
    with written_beside(path.with_name(f"{path.name}.md")) as beside:
        beside.write_text(markdown(measured, failed, minutes), "utf-8")


def markdown(measured: dict[str, Any], failed: dict[str, str], minutes: float) -> str:
    first: dict[str, Any] = next(iter(measured.values()), {})
    lines = ["# Time and memory beside other libraries", ""]
    if first:
        machine, options = first["machine"], first["options"]
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        lines += [
            f"- date: {first['date']}, {minutes:.0f} minutes in all",
            f"- machine: {machine['processor']} ({machine['vector instructions']}), {machine['cores']} cores, "
            f"{machine['memory, GiB']} GiB, {machine['system']}, GPU: {machine['gpu'] or 'none'}",
            f"- versions: {versions}",
            f"- {options['precision']}, {options['threads'] or machine['cores']} threads, {options['rounds']} rounds "
            f"in turn after one that is not timed, random inputs, the same weights; medians, and medians of the "
            f"ratios of each round",
            "- ratio: of times theirs over ours, above 1 ours is faster; of memory ours over theirs, below 1 ours "
            "takes less",
            "",
        ]
    for part, result in measured.items():
        lines += [f"## {NAMES[part]}", "", f"`{result['command']}`", ""]
        lines += [tables.markdown(tables.COUNT_HEAD, tables.count_lines(result["counts"])), ""]
        lines += [tables.markdown(tables.HEAD, tables.row_lines(result)), ""]
        if different := tables.difference_lines(result):
            lines += [tables.markdown(tables.DIFFERENCE_HEAD, different), ""]
        lines += [f"- {note}" for note in [*result["notes"], *tables.differing(result)]] + [""]
    lines += [f"- {NAMES[part]}: not measured ({reason})" for part, reason in failed.items()]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main())
