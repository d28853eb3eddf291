"""The scores of every class, for a person and for a program."""

import csv
from pathlib import Path
from typing import cast

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from src.files import written_beside
from src.metrics import Scores
from src.tasks import SemanticSegmentation

HEADINGS = ("class", "iou", "accuracy", "pixels")


class ClassTable(Callback):
    """Prints IoU, accuracy and labelled pixels of every class, and writes them to ``classes.csv`` in the run's folder.

    Cells are empty where a class is in no label and no prediction.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shows the table, unless this is a validation in the course of training.

        Args:
            trainer: the trainer.
            pl_module: the task, with ``scores`` and ``classes``.
        """
        if trainer.state.fn == "validate":
            self._show(trainer, pl_module)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shows the table.

        Args:
            trainer: the trainer.
            pl_module: the task, with ``scores`` and ``classes``.
        """
        self._show(trainer, pl_module)

    def _show(self, trainer: Trainer, pl_module: LightningModule) -> None:
        folder = trainer.log_dir  # a message between all processes
        task = cast("SemanticSegmentation", pl_module)
        if task.scores is None or not trainer.is_global_zero:
            return
        rows = class_rows(task.classes.names, task.scores)
        table = Table(*HEADINGS, title=f"mIoU {task.scores.miou:.4f}")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        if folder is not None:
            path = Path(folder, "classes.csv")
            with written_beside(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([HEADINGS, *rows])
            print(f"table of the classes: {path}")


def class_rows(names: tuple[str, ...], scores: Scores) -> list[tuple[str, ...]]:
    """One row of text for each class: name, IoU, accuracy, labelled pixels.

    Args:
        names: the names of the classes.
        scores: scores of a set.
    """
    return [
        (name, *("" if value != value else f"{value:.4f}" for value in (iou, accuracy)), str(pixels))
        for name, iou, accuracy, pixels in zip(
            names, scores.iou.tolist(), scores.class_accuracy.tolist(), scores.pixels.tolist(), strict=True
        )
    ]
