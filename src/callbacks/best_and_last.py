"""The checkpoints of a run."""

from pathlib import Path

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint


class BestAndLast(ModelCheckpoint):
    """Keeps ``best.ckpt`` and ``last.ckpt`` in the run's folder, written after every validation.

    Args:
        monitor: the score that tells which is best.
        mode: ``max`` where a higher score is better, else ``min``.
        folder: where to write; None is the folder of the run's log.
    """

    def __init__(self, monitor: str = "val/miou", mode: str = "max", folder: str | None = None) -> None:
        super().__init__(
            dirpath=folder,
            filename="best",
            monitor=monitor,
            mode=mode,
            enable_version_counter=False,
            auto_insert_metric_name=False,
        )

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Settles on a folder.

        Args:
            trainer: the trainer.
            pl_module: the task.
            stage: fit, validate, test or predict.
        """
        if self.dirpath is None and trainer.log_dir is not None:
            self.dirpath = trainer.log_dir
        super().setup(trainer, pl_module, stage)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes ``best.ckpt`` where the score is the best so far, and ``last.ckpt`` in any case.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn == "fit" and self.dirpath and not trainer.sanity_checking:
            # lightning's own save_last writes only where the score got better
            self.last_model_path = str(Path(self.dirpath, "last.ckpt"))
            trainer.save_checkpoint(self.last_model_path, weights_only=False)
