"""The checkpoints of a run."""

import shutil
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only

from src.files import written_beside


class BestAndLast(ModelCheckpoint):
    """Keeps ``best.ckpt`` and ``last.ckpt`` in the run's folder, written after every validation.

    At the end of training ``last.ckpt`` is written once more where steps followed the last validation. A run that
    resumes in another folder takes the best checkpoint so far along.

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
            save_on_train_epoch_end=False,
        )
        self._step_of_last = -1

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
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._save_last(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes ``last.ckpt`` where it is older than the weights.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        super().on_train_end(trainer, pl_module)
        if trainer.global_step != self._step_of_last:
            self._save_last(trainer)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says where the checkpoints are.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        if self.last_model_path and trainer.is_global_zero:
            print(f"checkpoints: {self.dirpath}")

    def _save_last(self, trainer: Trainer) -> None:
        # lightning's own save_last writes only where the score got better
        if self.dirpath and not getattr(trainer, "fast_dev_run", False):
            self._step_of_last = trainer.global_step
            self.last_model_path = str(Path(self.dirpath, "last.ckpt"))
            trainer.save_checkpoint(self.last_model_path, weights_only=False)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with the best score of the run that resumes, its checkpoint copied into this run's folder.

        Args:
            state_dict: what the resumed run's callback saved.
        """
        super().load_state_dict(state_dict)
        best = Path(state_dict["best_model_path"])
        if self.dirpath is None or self.dirpath == state_dict["dirpath"] or not best.is_file():
            return
        copied = str(Path(self.dirpath, best.name))
        _copy(best, Path(copied))
        score = state_dict["best_model_score"]
        self.best_model_path = self.kth_best_model_path = copied
        self.best_model_score = self.kth_value = score
        self.best_k_models = {copied: score}


@rank_zero_only
def _copy(source: Path, target: Path) -> None:
    with written_beside(target) as beside:
        shutil.copyfile(source, beside)
