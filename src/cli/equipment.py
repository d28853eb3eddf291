"""What a trainer gets beside what the config says: the run's folder, loggers, callbacks, checkpoints that are whole."""

from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.callbacks import Callback, ProgressBar, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins import CheckpointIO

from src.callbacks import BestAndLast, ClassTable, ImagePanels, LearningCurves, PredictionWriter, StepSeed
from src.cli.run_folder import make_run_folder
from src.cli.whole_checkpoints import WholeCheckpoints


def equipped(trainer: dict[str, Any], command: str, config: Namespace) -> dict[str, Any]:
    """The arguments of the trainer.

    Args:
        trainer: the arguments that the config gives.
        command: the subcommand.
        config: all that the config gives, built.

    Raises:
        ValueError: the folder for checkpoints holds those of another run.
    """
    callbacks = [*_listed(trainer.get("callbacks")), config.execution, *_own_callbacks(command, config)]
    if trainer.get("enable_progress_bar") is not False and not _any(callbacks, ProgressBar):
        callbacks.append(RichProgressBar())
    checkpoint: BestAndLast = config.checkpoint
    if command == "fit" and checkpoint.dirpath and list(Path(checkpoint.dirpath).glob("*.ckpt")):
        raise ValueError(
            f"checkpoint.folder must be a folder without checkpoints of another run, got {checkpoint.dirpath}; give "
            f"another folder, or none for the run's own."
        )
    if command != "predict" and not _any(callbacks, ImagePanels):
        callbacks.append(config.panels)
    if command == "fit" and trainer.get("enable_checkpointing") is not False and not _any(callbacks, BestAndLast):
        callbacks.append(checkpoint)
    if command == "predict":
        trainer["logger"] = trainer.get("logger") or False
    elif not trainer.get("fast_dev_run"):
        folder = make_run_folder(trainer.get("default_root_dir") or config.runs, config.name or "run")
        trainer["default_root_dir"] = str(folder)
        if checkpoint.dirpath is None:
            checkpoint.dirpath = str(folder)
        if trainer.get("logger") in (None, True):
            loggers = (TensorBoardLogger, CSVLogger)
            trainer["logger"] = [logger(folder.parent, name="", version=folder.name) for logger in loggers]
    plugins = _listed(trainer.get("plugins"))
    if not _any(plugins, CheckpointIO):
        plugins.append(WholeCheckpoints())
    return trainer | {"callbacks": callbacks, "plugins": plugins}


def _own_callbacks(command: str, config: Namespace) -> list[Callback]:
    if command == "predict":
        return [PredictionWriter(config.output, config.overlay, config.overwrite)]
    if command == "fit":
        return [StepSeed(config.seed_everything), LearningCurves()]
    return [ClassTable()]


def _any(values: list[Any], kind: type) -> bool:
    return any(isinstance(value, kind) for value in values)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
