from pathlib import Path

import pytest
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, RichProgressBar, TQDMProgressBar

from src.callbacks import BestAndLast, ImagePanels, LearningCurves, StepSeed
from src.cli.saved_config import SavedConfig

OURS = {BestAndLast, ImagePanels, LearningCurves, StepSeed, SavedConfig}
MONITOR = "lightning.pytorch.callbacks.LearningRateMonitor"


def kinds(trainer) -> list[type]:
    return [type(callback) for callback in trainer.callbacks]


@pytest.mark.parametrize(
    "flags",
    [
        ["--trainer.callbacks+", MONITOR, "--trainer.callbacks.logging_interval", "step"],
        ["--trainer.callbacks", MONITOR, "--trainer.callbacks.logging_interval=step"],
        ["--trainer.callbacks=[{class_path: " + MONITOR + ", init_args: {logging_interval: step}}]"],
    ],
)
def test_a_callback_comes_beside_the_built_in_ones(fit, flags, capsys):
    trainer = fit(*flags).trainer
    assert OURS | {LearningRateMonitor} <= set(kinds(trainer))
    (monitor,) = (callback for callback in trainer.callbacks if isinstance(callback, LearningRateMonitor))
    assert monitor.logging_interval == "step"
    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("callbacks: "))
    assert {kind.__name__ for kind in kinds(trainer)} == set(said.removeprefix("callbacks: ").split(", "))


def test_an_empty_list_of_callbacks_loses_none_of_ours(fit):
    assert set(kinds(fit("--trainer.callbacks=[]").trainer)) >= OURS


def test_a_second_checkpoint_callback_writes_beside_the_first(fit):
    flags = ["--trainer.callbacks+", "lightning.pytorch.callbacks.ModelCheckpoint", "--trainer.callbacks.filename=mine"]
    trainer = fit(*flags).trainer
    assert {ModelCheckpoint, BestAndLast} <= set(kinds(trainer))
    names = {path.name for path in Path("runs/tiny").rglob("*.ckpt")}
    assert {"best.ckpt", "last.ckpt", "mine.ckpt"} <= names


def test_one_progress_bar_is_enough(fit):
    bars = ["--trainer.enable_progress_bar=true", "--trainer.callbacks+"]
    for name, kind in (("TQDMProgressBar", TQDMProgressBar), ("RichProgressBar", RichProgressBar)):
        found = kinds(fit(*bars, f"lightning.pytorch.callbacks.{name}", "--trainer.max_steps=1").trainer)
        assert [found.count(bar) for bar in (TQDMProgressBar, RichProgressBar)].count(1) == 1
        assert kind in found


def test_scores_with_a_slash_make_no_folders(fit):
    fit("--trainer.max_steps=3", "--trainer.val_check_interval=1")
    (best,) = Path("runs").rglob("best*.ckpt")
    assert best.parent.parent == Path("runs/tiny")
    assert not [path for path in best.parent.iterdir() if path.is_dir() and path.name != "panels"]
