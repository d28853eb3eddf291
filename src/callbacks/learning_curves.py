"""The course of a run as one picture."""

import csv
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from matplotlib.figure import Figure

from src.files import written_beside

PANELS = {"loss": ("train/loss",), "score": ("val/miou", "val/accuracy"), "learning rate": ("train/lr",)}


class LearningCurves(Callback):
    """Draws loss, scores and learning rate over the optimizer steps to ``curves.png`` beside the run's CSV log."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draws what the CSV logger has written; where it wrote nothing there is no picture.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        logger = next((logger for logger in trainer.loggers if isinstance(logger, CSVLogger)), None)
        if logger is None or not trainer.is_global_zero:
            return
        logger.save()
        log, path = Path(logger.log_dir, "metrics.csv"), Path(logger.log_dir, "curves.png")
        if not log.is_file():
            return
        with log.open(encoding="utf-8", newline="") as file, written_beside(path) as beside:
            draw_curves(list(csv.DictReader(file))).savefig(beside, format="png", dpi=100)
        print(f"curves: {path}")


def draw_curves(rows: list[dict[str, str]]) -> Figure:
    """One panel for each kind of value, over the optimizer steps.

    Args:
        rows: rows of the CSV log: ``step`` and the values logged then; an empty string where there is none.
    """
    figure = Figure(figsize=(5 * len(PANELS), 3.5), layout="constrained")
    for axes, (title, names) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for name in names:
            points = [(int(row["step"]), float(row[name])) for row in rows if row.get(name)]
            if points:
                axes.plot(*zip(*points, strict=True), label=name, marker="." if len(points) < 50 else None)
        axes.set(title=title, xlabel="optimizer step")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    return figure
