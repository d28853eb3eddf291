"""Image, label and prediction side by side, while a run goes on."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from PIL import Image
from torch import Tensor

from src.data.batch import Batch
from src.files import written_beside
from src.inference.drawing import coloured
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation


class ImagePanels(Callback):
    """Shows the first validation images as image | label | prediction, in TensorBoard and in ``panels/`` of the run.

    Args:
        num_images: how many images; 0 for none.
        height: of every picture, in pixels.

    Raises:
        ValueError: a number is too small.
    """

    def __init__(self, num_images: int = 4, height: int = 256) -> None:
        for key, value, least in (("num_images", num_images, 0), ("height", height, 1)):
            if value < least:
                raise ValueError(f"panels.{key} must be at least {least}, got {value}; raise it.")
        self.num_images = num_images
        self.height = height
        self._rows: list[np.ndarray] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forgets the pictures of the last validation.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        self._rows = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keeps the first images.

        Args:
            trainer: the trainer.
            pl_module: the task, with ``classes`` and ``preprocessing``.
            outputs: under ``labels`` one label map ``(H_i, W_i)`` for each image.
            batch: images and masks.
            batch_idx: place in the epoch.
            dataloader_idx: place among the loaders.
        """
        if not trainer.is_global_zero:
            return
        task, predictions = cast("SemanticSegmentation", pl_module), outputs["labels"]
        for index in range(min(len(predictions), self.num_images - len(self._rows))):
            height, width = batch["sizes"][index]
            pictures = [
                shown(batch["images"][index, :, :height, :width], task.preprocessing),
                coloured(batch["masks"][index].cpu().numpy(), task.classes.palette),
                coloured(predictions[index].cpu().numpy(), task.classes.palette),
            ]
            self._rows.append(np.concatenate([self._scaled(picture) for picture in pictures], axis=1))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the panels.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        folder = trainer.log_dir  # a message between all processes
        if trainer.sanity_checking or not self._rows or not trainer.is_global_zero:
            return
        width = max(row.shape[1] for row in self._rows)
        rows = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in self._rows]
        panels = np.concatenate(rows, axis=0)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image("val/panels", panels, trainer.global_step, dataformats="HWC")
        if folder is not None:
            path = Path(folder, "panels", f"step_{trainer.global_step:07d}.png")
            with written_beside(path) as beside:
                Image.fromarray(panels).save(beside, format="PNG")

    def _scaled(self, picture: np.ndarray) -> np.ndarray:
        """The picture at the panels' height; a wide one is cut off at four times that."""
        height, width = picture.shape[:2]
        widest = 4 * self.height
        size = (min(max(1, round(width * self.height / height)), widest), self.height)
        shown_width = min(width, max(1, round(widest * height / self.height)))
        return np.asarray(Image.fromarray(picture[:, :shown_width]).resize(size, Image.Resampling.NEAREST))


def shown(image: Tensor, preprocessing: Preprocessing) -> np.ndarray:
    """A model's input as the picture that it was, ``(H, W, 3)`` uint8; other than three channels in grey.

    Args:
        image: ``(C, H, W)`` float32, normalised.
        preprocessing: how it was normalised.
    """
    mean, std = (image.new_tensor(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    pixels = (image * std + mean).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return pixels if pixels.shape[2] == 3 else np.repeat(pixels[:, :, :1], 3, axis=2)
