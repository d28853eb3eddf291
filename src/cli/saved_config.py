"""The config of a run, kept with it."""

from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, SaveConfigCallback


class SavedConfig(SaveConfigCallback):
    """Writes ``config.yaml`` into the run's folder before the first step, whichever logger there is.

    Lightning's own writes into the folder of the logger, where the config of another run may be.

    Args:
        parser: the parser of the subcommand.
        config: the values that run.
        folder: folder of the run.
    """

    def __init__(self, parser: LightningArgumentParser, config: Namespace, folder: str) -> None:
        super().__init__(parser, config)
        self.folder = Path(folder)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Writes the config, in the first process.

        Args:
            trainer: the trainer.
            pl_module: the task.
            stage: fit, validate, test or predict.
        """
        if trainer.is_global_zero and not self.already_saved:
            self.parser.save(self.config, str(self.folder / self.config_filename), skip_none=False, multifile=False)
            self.already_saved = True
