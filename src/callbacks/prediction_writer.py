"""Masks of a predict job, written as they come."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import cast

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from PIL import Image
from torch import Tensor

from src.data.batch import Batch
from src.data.evaluation_dataset import EvaluationDataset
from src.data.image_io import read_image
from src.data.source import ReadImage
from src.files import written_beside
from src.inference.drawing import mask_image, overlaid
from src.tasks import SemanticSegmentation


class PredictionWriter(BasePredictionWriter):
    """Writes each label map as an indexed PNG of the image's size, under the image's relative path.

    Its pixels are the ids of the classes, as in the masks of the data, so that it can be read as a mask.

    A mask is written beside its place and renamed, so that a stopped job leaves no half file.

    Args:
        output: folder of the masks.
        overlay: whether to write each image with its mask over it too, as ``<name>_overlay.jpg``.

    Raises:
        ValueError: the masks would lie among the images, or cannot be written.
    """

    def __init__(self, output: str, overlay: bool = False) -> None:
        super().__init__(write_interval="batch")
        self.output = Path(output)
        self.overlay = overlay
        self._read_image: ReadImage = read_image
        self._images: dict[str, Path] = {}
        self._names: dict[str, str] = {}

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Settles the name of every mask before the first is made.

        Args:
            trainer: the trainer, whose predict loader has a data set with ``pairs`` and ``sources``.
            pl_module: the task.

        Raises:
            ValueError: the masks would lie among the images, or cannot be written.
        """
        dataset = cast("EvaluationDataset", trainer.predict_dataloaders.dataset)  # type: ignore[union-attr]
        self._read_image = dataset.sources[0].read_image
        self._images = {pair.name: pair.image for pair in dataset.pairs}
        self._names = mask_names(list(self._images))
        output = self.output.resolve()
        for root in {image.parents[len(PurePosixPath(name).parts) - 1] for name, image in self._images.items()}:
            if (folder := root.resolve()) in (output, *output.parents):
                raise ValueError(
                    f"output must not lie in the folder of the images, got {self.output} in {folder}, where "
                    f"masks could replace images or be taken for images; give another folder."
                )
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"output must be a folder to write to, got {self.output} ({error}).") from error

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: Sequence[Tensor],
        batch_indices: Sequence[int] | None,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Writes the masks of one batch.

        Args:
            trainer: the trainer.
            pl_module: the task, with ``classes``.
            prediction: one label map ``(H_i, W_i)`` for each image.
            batch_indices: places of the images in the data set.
            batch: the images' names among others.
            batch_idx: place in the epoch.
            dataloader_idx: place among the loaders.
        """
        classes = cast("SemanticSegmentation", pl_module).classes
        for name, labels in zip(batch["names"], prediction, strict=True):
            pixels = labels.cpu().numpy()
            self._write(mask_image(pixels, classes), f"{self._names[name]}.png")
            if self.overlay:
                picture = overlaid(self._read_image(self._images[name], 3), pixels, classes.palette)
                self._write(Image.fromarray(picture), f"{self._names[name]}_overlay.jpg")

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says where the masks are.

        Args:
            trainer: the trainer.
            pl_module: the task.
        """
        if trainer.is_global_zero:
            print(f"{len(self._names)} masks{' and overlays' if self.overlay else ''}: {self.output}")

    def _write(self, picture: Image.Image, name: str) -> None:
        with written_beside(self.output / name) as beside:
            picture.save(beside, format="PNG" if name.endswith(".png") else "JPEG")


def mask_names(names: Sequence[str]) -> dict[str, str]:
    """Names of masks, without ``.png``: the images' without suffix, or with it where two would be the same.

    Args:
        names: relative paths of the images, with ``/`` and suffix.

    Raises:
        ValueError: a path climbs out of its folder.
    """
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"names of images must lie inside their folder, got {name}; move or rename the file.")
    stems = {name: str(PurePosixPath(name).with_suffix("")) for name in names}
    counts = Counter(stems.values())
    chosen = {name: stem if counts[stem] == 1 else name for name, stem in stems.items()}
    return chosen if len(set(chosen.values())) == len(chosen) else {name: name for name in names}
