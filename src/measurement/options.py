"""What a benchmark is asked to measure."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch

from src.layers.size import Size
from src.wording import listed, nearest

Precision = Literal["float32", "bfloat16", "float16"]
Numerics = Literal["exact", "fast", "both"]
Layout = Literal["auto", "contiguous", "channels_last"]

ROWS = {
    "features": "encoder alone",
    "logits": "logits at stride 4",
    "full_logits": "logits at full size",
    "label_map": "label map",
    "evaluation": "evaluating one image",
    "training": "training step",
    "training_memory": "memory of a training step",
    "label_map_memory": "memory of one label map",
}
"""What can be measured, and what it is called in a table; training comes after all that compares outputs, for after it
the weights are no longer the same on all sides."""
MEMORY_ROWS = {"training_memory": "training", "label_map_memory": "label_map"}
"""Rows of memory, and the row whose work takes it."""
OURS = {"exact": "ours, exact", "fast": "ours, fast"}
"""What ours are called, by their numerics."""

MODELS = ("nano", "tiny", "small", "base", "large")
PEERS = ("transformers", "torchvision", "smp")
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True)
class Options:
    """What is measured, on what, and against whom.

    Args:
        model: ``nano`` or a published size.
        configs: configs whose model takes the place of ``model``; the last one wins.
        size: height and width of the images in pixels.
        batch: images of a batch; None for 1 in inference and 2 in training.
        threads: threads of torch; None for one a core.
        precision: ``float32``, or what autocast computes in.
        device: ``cpu`` or ``cuda``.
        against: the libraries to compare with.
        numerics: which of ours are measured.
        compile: send ours and the tuned peers through ``torch.compile``.
        rounds: timed rounds, after one that is not timed.
        rows: what is measured, of ``ROWS``.
        memory_size: height and width of the image of ``label_map_memory`` in pixels.
        num_classes: number of classes, where no config tells it.
        layout: how the tuned peers hold images and weights; ``auto`` tries both and takes the faster where
            anything is timed.
    """

    model: str = "tiny"
    configs: tuple[str, ...] = ()
    size: Size = (512, 512)
    batch: int | None = None
    threads: int | None = None
    precision: Precision = "float32"
    device: str = "cpu"
    against: tuple[str, ...] = ("transformers",)
    numerics: Numerics = "exact"
    compile: bool = False
    rounds: int = 5
    rows: tuple[str, ...] = tuple(ROWS)
    memory_size: Size = (2048, 3072)
    num_classes: int = 150
    layout: Layout = "auto"

    @property
    def timed_rows(self) -> tuple[str, ...]:
        """What is measured in seconds, in the order of ``ROWS``."""
        return tuple(row for row in ROWS if row in self.rows and row not in MEMORY_ROWS)

    @property
    def memory_rows(self) -> tuple[str, ...]:
        """What is measured in bytes."""
        return tuple(row for row in self.rows if row in MEMORY_ROWS)

    @property
    def inference_batch(self) -> int:
        """Images of a batch in inference."""
        return self.batch or 1

    @property
    def training_batch(self) -> int:
        """Images of a batch in training."""
        return self.batch or 2

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Options":
        """The options that ``to_dict`` wrote, also after a way through JSON."""
        known = {each.name for each in fields(cls)}
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**{name: value for name, value in told.items() if name in known})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a parser the flags of ``Options``."""
    add = parser.add_argument
    add("--model", choices=MODELS, default="tiny", help="size of the model (tiny)")
    add("--config", action="append", default=[], metavar="FILE", help="measure the model that a config describes; may "
        "be given several times, the last wins")  # fmt: skip
    add("--size", type=size, default=(512, 512), metavar="HxW", help="height and width of images in pixels (512x512)")
    add("--batch", type=count, metavar="N", help="images of a batch (1 in inference, 2 in training)")
    add("--threads", type=count, metavar="N", help="threads of torch (one a core)")
    add("--precision", choices=PRECISIONS, default="float32", help="what autocast computes in (float32: no autocast)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where (cpu)")
    add("--against", type=peers, default=("transformers",), metavar="NAMES", help=f"libraries to compare with, of "
        f"{','.join(PEERS)}, with commas; none for ours alone (transformers)")  # fmt: skip
    add("--numerics", choices=("exact", "fast", "both"), default="exact", help="which numerics of ours (exact)")
    add("--compile", action="store_true", help="send ours and the tuned peers through torch.compile")
    add("--rounds", type=count, default=5, metavar="N", help="timed rounds (5)")
    add("--only", type=rows, default=tuple(ROWS), metavar="ROWS", help=f"what to measure, of {', '.join(ROWS)}, with "
        f"commas (all)")  # fmt: skip
    add("--memory-size", type=size, default=(2048, 3072), metavar="HxW", help="height and width of the image whose "
        "label map's memory is measured, in pixels (2048x3072)")  # fmt: skip
    add("--classes", type=count, default=150, metavar="N", help="number of classes, where no config tells it (150)")


def options_of(told: argparse.Namespace) -> tuple[Options, list[str]]:
    """The options that were given, and what a user should know of them.

    Raises:
        ValueError: they ask for what this machine does not have, or contradict one another.
    """
    if told.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device must be cpu on this machine, got cuda, and torch finds no GPU; leave it out.")
    if told.batch == 1 and "transformers" in told.against and {"training", "training_memory"} & set(told.only):
        raise ValueError(
            "--batch must be at least 2 to train transformers' UPerNet, which cannot normalise one value, got 1; leave "
            "--batch out, or the training rows with --only."
        )
    if told.compile and MEMORY_ROWS.keys() & set(told.only) and told.only != tuple(ROWS):
        raise ValueError("--compile must go without rows of memory, whose process would compile; leave them out.")
    cores = num_cores()
    notes = []
    if told.threads and told.threads > cores:
        notes.append(f"{told.threads} threads share {cores} cores, so they wait for one another")
    kept = tuple(row for row in told.only if not (told.compile and row in MEMORY_ROWS))
    options = Options(
        model=told.model,
        configs=tuple(told.config),
        size=told.size,
        batch=told.batch,
        threads=told.threads,
        precision=told.precision,
        device=told.device,
        against=told.against,
        numerics=told.numerics,
        compile=told.compile,
        rounds=told.rounds,
        rows=kept,
        memory_size=told.memory_size,
        num_classes=told.classes,
    )
    return options, notes


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def size(text: str) -> Size:
    """Height and width of ``HxW``.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    if not (match := re.fullmatch(r"0*([1-9]\d{0,4})x0*([1-9]\d{0,4})", text)):
        raise argparse.ArgumentTypeError(f"must be HxW in pixels, for example 512x512, got {text[:20]}")
    return int(match[1]), int(match[2])


def count(text: str) -> int:
    """A whole number from 1.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    if not re.fullmatch(r"0*[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 999999, got {text[:20]}")
    return int(text)


def rows(text: str) -> tuple[str, ...]:
    """Rows with commas between them.

    Raises:
        argparse.ArgumentTypeError: there is no such row.
    """
    return _named(text, tuple(ROWS), "a row")


def peers(text: str) -> tuple[str, ...]:
    """Libraries with commas between them; ``none`` is no library.

    Raises:
        argparse.ArgumentTypeError: there is no such library, or ``none`` stands beside one.
    """
    if text.strip() == "none":
        return ()
    if "none" in (name.strip() for name in text.split(",")):
        raise argparse.ArgumentTypeError(f"must be none alone, or libraries without it, got {text[:60]}")
    return _named(text, PEERS, "a library")


def _named(text: str, known: Sequence[str], kind: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(
                f"must be {kind} of {listed(known, len(known))}, got {name[:30]}; {nearest(name, known)}"
            )
    return tuple(name for name in known if name in names)
