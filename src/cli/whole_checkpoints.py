"""Checkpoints that appear whole or not at all."""

import shutil
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

        Raises:
            ValueError: the file cannot be written.
        """
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        try:
            with written_beside(Path(path)) as beside:
                torch.save(checkpoint, beside)
        except (OSError, RuntimeError) as error:  # torch says RuntimeError of a disk that is full
            free = shutil.disk_usage(next(folder for folder in Path(path).absolute().parents if folder.exists())).free
            raise ValueError(
                f"{path} cannot be written ({str(error).splitlines()[0]}; {free / 2**30:.2f} GiB are free); make room: "
                f"checkpoints that were there stay whole, and --ckpt_path goes on from them."
            ) from error
