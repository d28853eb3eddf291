"""Checkpoints that appear whole or not at all."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins import TorchCheckpointIO

from src.files import written_beside


class WholeCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint beside its place and renames it, so that a kill or a full disk leaves the one before.

    Lightning's own way goes through the folder for temporary files, which often is another disk.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Writes one file.

        Args:
            checkpoint: what to save.
            path: where; an address such as ``s3://...`` is left to Lightning.
            storage_options: see Lightning; for addresses only.
        """
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        with written_beside(Path(path)) as beside:
            torch.save(checkpoint, beside)
