"""Random numbers of a model in training that do not depend on what happened before."""

from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class StepSeed(Callback):
    """Seeds dropout and drop path before every batch from (seed, process, batch).

    So a resumed run draws what the uninterrupted one would have drawn, and processes do not draw alike.

    Args:
        seed: of the run, 0 or more.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = int(seed)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Seeds torch on all devices.

        Args:
            trainer: the trainer.
            pl_module: the task.
            batch: not used.
            batch_idx: not used.
        """
        place = [self.seed, trainer.global_rank, trainer.fit_loop.epoch_loop.total_batch_idx]
        torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]))
